# libcolonnade_cuda_driver.so, where CUDA, cuDNN and cuBLAS are found: cuda/driver/, loaded by OpenCuda.
if(COLONNADE_CUDA STREQUAL "OFF")
  return()
endif()
include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  find_package(CUDAToolkit QUIET)
  find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(EXISTS ${CUDNN_INCLUDE_DIR}/cudnn_version.h)
    file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h CUDNN_VERSION REGEX "#define CUDNN_(MAJOR|MINOR) ")
    string(REGEX REPLACE "[^0-9]*([0-9]+)[^0-9]+([0-9]+)" "\\1.\\2" CUDNN_VERSION "${CUDNN_VERSION}")
  endif()
endif()
set(needed_cudnn 9.8)  # which knows GPUs by their properties
if(NOT CMAKE_CUDA_COMPILER OR NOT TARGET CUDA::cublasLt OR NOT CUDNN_INCLUDE_DIR OR NOT CUDNN_LIBRARY OR
   CUDNN_VERSION VERSION_LESS needed_cudnn)
  if(COLONNADE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "COLONNADE_CUDA=ON: expected nvcc, cuBLAS and cuDNN ${needed_cudnn} or newer, found nvcc \"${CMAKE_CUDA_COMPILER}\", "
                        "cudnn.h \"${CUDNN_INCLUDE_DIR}\" ${CUDNN_VERSION}, libcudnn \"${CUDNN_LIBRARY}\"; install them or set OFF")
  endif()
  message(STATUS "CUDA backend: without a driver (nvcc, cuBLAS or cuDNN ${needed_cudnn} not found)")
  return()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)  # 90 with PTX, for what comes after
endif()
enable_language(CUDA)
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # which CMake 3.25 does not know of this nvcc
# Our kernels link nothing: Abseil's targets ask for a dialect and an include path that CMake 3.25 hands to nvcc wrongly.
add_library(colonnade_cuda_kernels OBJECT ${PROJECT_SOURCE_DIR}/cuda/driver/kernels.cu)
set_target_properties(colonnade_cuda_kernels PROPERTIES CUDA_STANDARD 20)
target_include_directories(colonnade_cuda_kernels PRIVATE ${PROJECT_SOURCE_DIR})
# As on the host (-ffp-contract=off): what two kernels work out alike, such as the ReLU that a backward pass recalls, is alike to the bit.
# No kernel of ours is bound by arithmetic.
target_compile_options(colonnade_cuda_kernels PRIVATE --fmad=false)
# Apart, since tests ask cuDNN about GPUs that are not there.
set(driver ${PROJECT_SOURCE_DIR}/cuda/driver)
add_library(colonnade_cuda_dnn STATIC ${driver}/convolution_runner.cc ${driver}/convolution_graph.cc ${driver}/convolution_graph_builder.cc ${driver}/descriptor.cc)
target_include_directories(colonnade_cuda_dnn SYSTEM PUBLIC ${CUDNN_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(colonnade_cuda_dnn PUBLIC colonnade::cuda ${CUDNN_LIBRARY})
add_library(colonnade_cuda_driver MODULE ${driver}/driver.cc ${driver}/engine_timer.cc ${driver}/matrix_products.cc ${driver}/communicators.cc ${driver}/nccl_library.cc ${driver}/about.cc $<TARGET_OBJECTS:colonnade_cuda_kernels>)
set_target_properties(colonnade_cuda_driver PROPERTIES LINKER_LANGUAGE CXX)
target_link_libraries(colonnade_cuda_driver PRIVATE colonnade_cuda_dnn CUDA::cudart CUDA::cublasLt)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(NCCL_INCLUDE_DIR)  # its library is loaded where it is there
  target_compile_definitions(colonnade_cuda_driver PRIVATE COLONNADE_NCCL=1)
  target_include_directories(colonnade_cuda_driver SYSTEM PRIVATE ${NCCL_INCLUDE_DIR})
else()
  target_compile_definitions(colonnade_cuda_driver PRIVATE COLONNADE_NCCL=0)
endif()
message(STATUS "CUDA backend: CUDA ${CUDAToolkit_VERSION}, cuDNN ${CUDNN_VERSION}, NCCL ${NCCL_INCLUDE_DIR}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
