//! stub
use crate::kinds::Resource;
use keepwatch_apimachinery::status::Cause;
use serde_json::Value;
pub fn create(_: &Resource, _: &Value) -> Vec<Cause> {
    vec![]
}
pub fn update(_: &Resource, _: &Value, _: &Value) -> Vec<Cause> {
    vec![]
}
pub fn update_status(_: &Resource, _: &Value, _: &Value) -> Vec<Cause> {
    vec![]
}
pub fn warnings(_: &Resource, _: &Value, _: Option<&Value>) -> Vec<String> {
    vec![]
}
