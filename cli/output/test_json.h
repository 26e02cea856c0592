// What a test on held-out images found, as JSON.
#ifndef COLONNADE_CLI_OUTPUT_TEST_JSON_H_
#define COLONNADE_CLI_OUTPUT_TEST_JSON_H_

#include "engine/trainer.h"
#include "nlohmann/json.hpp"

namespace colonnade::cli {

// null where no sample was tested: figures of none would be taken for those of a bad network.
inline nlohmann::ordered_json TestJson(const engine::EvalReport& report) {
  if (report.count == 0) return nullptr;
  return {{"top1", report.top1()}, {"top5", report.top5()}, {"loss", report.loss}, {"count", report.count}};
}

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_OUTPUT_TEST_JSON_H_
