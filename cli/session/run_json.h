// What objects of --json say of a plan and of a run, whichever sub-command prints them.
#ifndef COLONNADE_CLI_SESSION_RUN_JSON_H_
#define COLONNADE_CLI_SESSION_RUN_JSON_H_

#include <string>

#include "cli/command_line/flags.h"
#include "cli/session/session.h"
#include "nlohmann/json.hpp"
#include "partition/plan.h"

namespace colonnade::cli {

// Returns {"plan": …, "mesh": {"replicas": R, "columns": M}, "devices": …}.
nlohmann::ordered_json PlanJson(const partition::Plan& plan);

// Returns {"model": …, those of the plan, "backend": …, "dtype": …, "global_batch": …}; `backend` is Backend::name.
nlohmann::ordered_json RunJson(const SessionFlags& flags, const Session& session, const std::string& backend);

}  // namespace colonnade::cli

#endif  // COLONNADE_CLI_SESSION_RUN_JSON_H_
