# The headers that are installed: the interface below, and what it includes. All others may move.
set(interface
    layers/graph.h models/models.h
    partition/legality.h partition/lower.h partition/mesh.h partition/named_plans.h partition/plan.h partition/planner.h
    program/builder.h program/memory.h program/program.h base/status_macros.h program/text.h program/verify.h
    engine/backend.h engine/checkpoint.h engine/classification.h engine/data_source.h engine/executor.h engine/machine.h engine/simulator.h engine/state.h engine/trace.h
    engine/trainer.h engine/io/file.h engine/io/safetensors.h engine/io/weights.h
    cpu/backend.h cuda/backend.h data/dataset.h data/formats.h data/image_set.h data/memory_set.h data/pipeline.h
    tools/calibration.h tools/drawing.h tools/gpus.h tools/host_memory.h tools/fit.h tools/intervals.h tools/machines.h tools/measure.h tools/memory_fit.h
    tools/network_file.h tools/planning.h tools/plot.h tools/rows.h tools/transfers.h tools/verify_plan.h)

# public_headers(OUT): the interface and its own includes, by path from the root. Where one of them changes, CMake looks again (in a second).
function(public_headers out)
  set(todo ${interface})
  set(all "")
  while(todo)
    list(POP_FRONT todo header)
    if(NOT header IN_LIST all)
      list(APPEND all ${header})
      file(STRINGS ${PROJECT_SOURCE_DIR}/${header} lines REGEX "^#include \"")
      foreach(line IN LISTS lines)
        string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" included "${line}")
        if(EXISTS ${PROJECT_SOURCE_DIR}/${included})
          list(APPEND todo ${included})
        endif()
      endforeach()
    endif()
  endwhile()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${all})
  set(${out} ${all} PARENT_SCOPE)
endfunction()
