//! No token that a client forges leads out of the prefix of its list, and a token reads back as itself.

#![no_main]

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use keepwatch_apimachinery::list_options::ContinueToken;
use libfuzzer_sys::fuzz_target;

const PREFIX: &str = "/registry/pods/n/";

fn check(text: &str) {
    if let Ok(token) = ContinueToken::decode(text) {
        let key = token.start_key(PREFIX);
        let below = key.strip_prefix(PREFIX).expect("the key begins with the prefix");
        assert!(below.split('/').all(|element| !["", ".", ".."].contains(&element)), "{key}");
        assert_eq!(ContinueToken::decode(&token.encode()), Ok(token));
    }
}

// The same bytes as a token, as the JSON inside one, and as the start inside that: base64 and JSON alone
// would keep most inputs from the part that matters.
fuzz_target!(|text: &str| {
    check(text);
    check(&URL_SAFE_NO_PAD.encode(text));
    let json = serde_json::json!({"v": "meta.k8s.io/v1", "rv": text.len(), "start": text});
    check(&URL_SAFE_NO_PAD.encode(json.to_string()));
});
