// Which generation must keep which law, and which is known to break it.
#include <algorithm>

#include "property_tests/law.h"

namespace a2asim::props {
namespace {

const std::vector<Law>& all_laws() {
  static const std::vector<Law> all = {
      {"agreement", "every rank derives the same R", ranks_agree, random_space, {small_space}, {}},
      {"exact fit", "rows <= R <= cap on every rank that goes on", fits_exactly, random_space, {small_space}, {}},
      {"no waste", "R is the largest count of rows", wastes_nothing, random_space, {small_space}, {}},
      {"idle ranks", "all ranks take part in a step with work, every token is carried once", idle_ranks_take_part,
       random_space, {small_space}, {}},
      {"permuted ranks", "permuting ranks permutes decisions", permuting_ranks_permutes, random_space, {small_space}, {}},
      {"sound check", "what check calls safe is safe, and its witnesses are real", check_is_sound, random_space, {}, {}},
      {"static caps", "what fits a cap fits a larger one", larger_caps_fit, random_space_of_backends, {}, {}},
      {"oracle", "outputs are those of the oracle, over poisoned memory", outputs_equal_the_oracle, random_space,
       {small_space, small_sequences}, {}},
      {"no stale read", "no row read is stale, misplaced, torn or unwritten", reads_nothing_stale, random_space,
       {small_space, small_sequences}, {}},
      {"fidelities", "integers, tags and bytes tell the same", fidelities_agree, random_space, {small_sequences}, {}},
      {"digest", "two runs of one world have one digest", one_digest, random_space_with_faults, {}, {}},
      {"causes", "whatever fault: a wrong output has a cause that is named", consequences_have_causes,
       random_space_with_faults, {}, {}},
      {"conservation", "each token arrives once at each destination, and no other byte changes", conserves_tokens,
       random_space, {}, {}},
      {"renamed experts", "other names of experts within a rank change nothing", renaming_experts_changes_nothing,
       random_space, {}, {}},
      {"graphs", "capture then replay leaves the bytes of an eager run", replay_equals_eager, random_space, {}, {}},
      {"texts", "what is printed is read again; any bytes give a value or one clear error", texts_are_stable,
       random_space_with_faults, {}, {}},
  };
  return all;
}

}  // namespace

std::span<const Law> laws() { return all_laws(); }

const Law& law(std::string_view name) {
  const auto found = std::ranges::find(all_laws(), name, &Law::name);
  A2ASIM_INVARIANT(found != all_laws().end(), "a law of this name exists");
  return *found;
}

bool is_known_to_fail(const Law& law, std::string_view generation) {
  return std::ranges::any_of(law.fails_for, [&](const auto& known) { return known.first == generation; });
}

}  // namespace a2asim::props
