#include "model/launch/flag.h"

namespace a2asim {

std::string_view python_name(FlagType type) {
  switch (type) {
    case FlagType::none:
      return "None";
    case FlagType::str:
      return "str";
    case FlagType::integer:
      return "int";
    case FlagType::real:
      return "float";
    case FlagType::json:
      return "loads";
    case FlagType::json_list:
      return "json_list_type";
    case FlagType::human_int:
      return "human_readable_int";
    case FlagType::nullable_str:
      return "nullable_str";
    case FlagType::graph_config:
      return "parse_cuda_graph_config_arg";
  }
  return "";
}

std::string_view python_name(FlagAction action) {
  switch (action) {
    case FlagAction::store:
      return "_StoreAction";
    case FlagAction::store_true:
      return "_StoreTrueAction";
    case FlagAction::deprecated_alias:
      return "DeprecatedAliasStoreAction";
    case FlagAction::deprecated_store_true:
      return "DeprecatedStoreTrueAction";
    case FlagAction::deprecated_store_const:
      return "DeprecatedStoreConstAction";
    case FlagAction::deprecated:
      return "DeprecatedAction";
    case FlagAction::boolean_optional:
      return "BooleanOptionalAction";
    case FlagAction::lora_path:
      return "LoRAPathAction";
  }
  return "";
}

}  // namespace a2asim
