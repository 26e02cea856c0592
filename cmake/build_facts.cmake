# The source ${build_facts}: how this build is configured, for cli/build_facts.h. The commit is that of the checkout when CMake ran, which
# it does again after each commit; sources that are no checkout of their own have none.
set(COLONNADE_COMMIT "")
find_package(Git QUIET)
if(GIT_FOUND)
  # Only where the sources are the top of the checkout: not where another project contains them.
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --show-prefix WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                  OUTPUT_VARIABLE prefix RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed AND prefix STREQUAL "")
    execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --dirty --abbrev=12 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                    OUTPUT_VARIABLE COLONNADE_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --git-path logs/HEAD WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                    OUTPUT_VARIABLE moved OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    get_filename_component(moved "${moved}" ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
    if(EXISTS "${moved}")
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${moved}")
    endif()
  endif()
endif()
set(COLONNADE_HAS_CUDA false)
if(TARGET colonnade_cuda_driver)
  set(COLONNADE_HAS_CUDA true)
endif()
set(build_facts ${PROJECT_BINARY_DIR}/build_facts.cc)
configure_file(${CMAKE_CURRENT_LIST_DIR}/build_facts.cc.in ${build_facts} @ONLY)
# Alone, so that a commit compiles no neighbours anew.
set_source_files_properties(${build_facts} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
