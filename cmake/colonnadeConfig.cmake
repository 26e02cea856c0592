# What a program needs that links colonnade::… targets.
include(CMakeFindDependencyMacro)
find_dependency(absl)
find_dependency(dnnl)
find_dependency(OpenMP COMPONENTS CXX)
find_dependency(Threads)
find_dependency(ZLIB)
find_dependency(nlohmann_json)
include(${CMAKE_CURRENT_LIST_DIR}/colonnadeTargets.cmake)
