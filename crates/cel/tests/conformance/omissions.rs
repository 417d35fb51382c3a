//! The conformance tests that do not apply to Kubernetes, with the reasons.

use super::cases::Case;

/// The reason why a case is left out; `None`: it must pass.
pub(crate) fn reason(case: &Case) -> Option<&'static str> {
    by_content(case).or_else(|| by_name(case))
}

/// Whether a case is left out by its name alone.
pub(crate) fn is_by_name(case: &Case) -> bool {
    by_content(case).is_none() && by_name(case).is_some()
}

/// The parts of expressions that Kubernetes does not have.
const CONTENTS: [(&str, &str); 15] = [
    ("TestAllTypes", MESSAGES),
    ("NestedTestAllTypes", MESSAGES),
    ("GlobalEnum", ENUMS),
    ("NullValue", ENUMS),
    ("google.protobuf.Any", MESSAGES),
    ("google.protobuf.Empty", MESSAGES),
    ("google.api.", MESSAGES),
    ("cel.bind(", "Kubernetes has no cel.bind"),
    ("cel.block(", "Kubernetes has no cel.block"),
    ("proto.", MESSAGES),
    ("math.", "Kubernetes has no math functions"),
    ("base64.", "Kubernetes has no base64 functions"),
    (".reverse()", "Kubernetes has the second version of the string functions"),
    ("`", "Kubernetes refuses quoted identifiers"),
    ("Any{", MESSAGES),
];

const MESSAGES: &str = "objects of Kubernetes have no messages of protocol buffers";
const ENUMS: &str = "Kubernetes has no enumerations of protocol buffers";
const CONTAINERS: &str = "Kubernetes has no containers of names";
const MACROS: &str = "Kubernetes always has its macros";

fn by_content(case: &Case) -> Option<&'static str> {
    if case.macros_are_disabled {
        return Some(MACROS);
    }
    if let Some((_, reason)) = CONTENTS.iter().find(|(part, _)| case.expression.contains(part)) {
        return Some(reason);
    }
    (!case.container.is_empty()).then_some(CONTAINERS)
}

const MIXED: &str = "Kubernetes refuses literals of mixed types";
const STRINGS: &str = "Kubernetes has the second version of the string functions";
const MAPPED: &str = "Kubernetes refuses IPv4 addresses inside IPv6 ones";
const IMPLEMENTATION: &str = "the implementation in Kubernetes differs from the specification";

/// Cases that behave differently in Kubernetes. Their results here are those of its own libraries.
const NAMES: [(&str, &str); 79] = [
    ("fields/map_fields/map_bad_key_type_and_false", IMPLEMENTATION),
    ("fields/map_fields/map_bad_key_type_or_true", IMPLEMENTATION),
    ("comparisons/eq_literal/eq_list_mixed_type_numbers", MIXED),
    ("comparisons/eq_literal/eq_map_mixed_type_numbers", MIXED),
    ("comparisons/eq_literal/eq_map_value_mixed_types", MIXED),
    ("comparisons/eq_literal/not_eq_list_elem_null", MIXED),
    ("comparisons/eq_literal/not_eq_list_false_vs_types", MIXED),
    ("comparisons/eq_literal/not_eq_list_mixed_type_numbers", MIXED),
    ("comparisons/eq_literal/not_eq_list_null", MIXED),
    ("comparisons/eq_literal/not_eq_map_false_vs_types", MIXED),
    ("comparisons/eq_literal/not_eq_map_null", MIXED),
    ("comparisons/eq_literal/not_eq_map_value_null", MIXED),
    ("comparisons/in_list_literal/elem_in_mixed_type_list", MIXED),
    ("comparisons/in_list_literal/elem_in_mixed_type_list_cross_type", MIXED),
    ("comparisons/in_map_literal/key_in_mixed_key_type_map", MIXED),
    ("comparisons/in_map_literal/key_in_mixed_key_type_map_cross_type", MIXED),
    ("conversions/dyn/dyn_heterogeneous_list", MIXED),
    ("dynamic/list/literal", MIXED),
    ("dynamic/value_list/literal", MIXED),
    ("dynamic/value_struct/literal", MIXED),
    ("fields/in/mixed_numbers_and_keys_absent", MIXED),
    ("fields/in/mixed_numbers_and_keys_present", MIXED),
    ("fields/map_fields/map_key_int64", MIXED),
    ("fields/map_fields/map_key_mixed_numbers_double_key", MIXED),
    ("fields/map_fields/map_key_mixed_numbers_int_key", MIXED),
    ("fields/map_fields/map_key_mixed_numbers_uint_key", MIXED),
    ("fields/map_fields/map_key_mixed_type", MIXED),
    ("fields/map_fields/map_key_uint64", MIXED),
    ("fields/map_fields/map_value_mix_type", MIXED),
    ("macros/all/list_elem_type_shortcircuit", MIXED),
    ("macros/exists/list_elem_type_exhaustive", MIXED),
    ("macros/exists/list_elem_type_shortcircuit", MIXED),
    ("macros/exists/map_key_type_exhaustive", MIXED),
    ("macros/exists/map_key_type_shortcircuit", MIXED),
    ("macros2/all/list_elem_type_exhaustive", MIXED),
    ("macros2/all/list_elem_type_shortcircuit", MIXED),
    ("macros2/exists/list_elem_type_exhaustive", MIXED),
    ("macros2/exists/list_elem_type_shortcircuit", MIXED),
    ("macros2/exists/map_key_type_exhaustive", MIXED),
    ("macros2/exists/map_key_type_shortcircuit", MIXED),
    ("optionals/optionals/map_key_mixed_numbers_double_key_optindex_value", MIXED),
    ("optionals/optionals/map_key_mixed_numbers_int_key_optindex_value", MIXED),
    ("optionals/optionals/map_key_mixed_numbers_uint_key_optindex_value", MIXED),
    ("optionals/optionals/map_key_mixed_type_optindex_value", MIXED),
    ("optionals/optionals/optional_chaining_13", MIXED),
    ("type_deduction/flexible_type_parameter_assignment/optional_dyn_promotion", MIXED),
    ("type_deduction/flexible_type_parameter_assignment/optional_dyn_promotion_2", MIXED),
    ("type_deduction/legacy_nullable_types/null_assignable_to_abstract_parameter_candidate", MIXED),
    ("string_ext/format/NaN support for decimal", STRINGS),
    ("string_ext/format/NaN support for scientific notation", STRINGS),
    ("string_ext/format/default precision for fixed-point clause with int", STRINGS),
    ("string_ext/format/default precision for fixed-point clause with uint", STRINGS),
    ("string_ext/format/default precision for scientific notation", STRINGS),
    ("string_ext/format/default precision for scientific notation with int", STRINGS),
    ("string_ext/format/default precision for scientific notation with uint", STRINGS),
    ("string_ext/format/dyntype NaN/infinity support", STRINGS),
    ("string_ext/format/dyntype support for lists", STRINGS),
    ("string_ext/format/dyntype support for maps", STRINGS),
    ("string_ext/format/dyntype support for scientific notation", STRINGS),
    ("string_ext/format/list support for string", STRINGS),
    ("string_ext/format/map support (all key types)", STRINGS),
    ("string_ext/format/map support for string", STRINGS),
    ("string_ext/format/negative infinity support for decimal", STRINGS),
    ("string_ext/format/negative infinity support for fixed-point", STRINGS),
    ("string_ext/format/negative infinity support for scientific notation", STRINGS),
    ("string_ext/format/positive infinity support for decimal", STRINGS),
    ("string_ext/format/positive infinity support for fixed-point", STRINGS),
    ("string_ext/format/positive infinity support for scientific notation", STRINGS),
    ("string_ext/format/scientific notation formatting clause", STRINGS),
    ("string_ext/format/scientific notation formatting clause in a string variable", STRINGS),
    ("fields/qualified_identifier_resolution/map_value_repeat_key", IMPLEMENTATION),
    ("namespace/namespace_shadowing/comprehension_shadowing_selector", IMPLEMENTATION),
    ("namespace/namespace_shadowing/comprehension_shadowing_selector_parse_only", IMPLEMENTATION),
    ("optionals/optionals/map_null_entry_no_such_key", IMPLEMENTATION),
    ("optionals/optionals/map_present_key_invalid_field", IMPLEMENTATION),
    ("string_ext/value_errors/indexof_out_of_range", IMPLEMENTATION),
    ("string_ext/value_errors/lastindexof_out_of_range", IMPLEMENTATION),
    ("network_ext/ipv4/ipv4_equals_ipv6", MAPPED),
    ("network_ext/ipv4/ipv4_not_equals_ipv6", MAPPED),
];

fn by_name(case: &Case) -> Option<&'static str> {
    NAMES.iter().find(|(path, _)| *path == case.path).map(|(_, reason)| *reason)
}
