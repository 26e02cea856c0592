# `cpack -G DEB` in a build folder makes Debian packages: the command, what is needed to link Colonnade, and the module for GPUs where it
# was built. What belongs to which is said by COMPONENT of install(); finish.cmake adds what Debian asks of a package.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME colonnade)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL runtime dev)
if(TARGET colonnade_cuda_driver)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
endif()
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(COLONNADE_MAINTAINER "the Colonnade authors <colonnade@colonnade.invalid>" CACHE STRING "Maintainer of the Debian packages")
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/packages/finish.cmake)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${COLONNADE_MAINTAINER})
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME colonnade)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "colonnade-cuda")
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "trains convolutional networks on several devices
Colonnade trains a network under a plan that says, layer by layer, how it is
spread: over columns (model parallelism), replicas (data parallelism) and
any mixture of both. A plan never changes the result. The command trains,
tests, verifies, plans, predicts times on machine profiles and measures this
machine; it runs on CPUs, and on GPUs with colonnade-cuda.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libcolonnade-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
    "libabsl-dev, libdnnl-dev, ocl-icd-opencl-dev, nlohmann-json3-dev, zlib1g-dev, libjpeg-dev, libpng-dev")
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "g++ (>= 4:12), cmake (>= 3.25)")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS colonnade)
set(CPACK_DEBIAN_DEV_DESCRIPTION "trains convolutional networks on several devices: C++ libraries
Headers, static libraries and the CMake package of Colonnade, by which a
program defines a network, plans how it is spread over devices, trains,
verifies and predicts it. Six examples are in the folder of documents.")

set(CPACK_DEBIAN_CUDA_PACKAGE_NAME colonnade-cuda)
set(CPACK_DEBIAN_CUDA_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "colonnade (= ${PROJECT_VERSION})")
if(TARGET colonnade_cuda_driver)
  # NVIDIA's packages, whose names have the version of CUDA. Here CUDA may lie in a folder that belongs to no package.
  string(REGEX REPLACE "^([0-9]+)\\.([0-9]+).*" "\\1-\\2" cuda_release ${CUDAToolkit_VERSION})
  set(CPACK_DEBIAN_CUDA_PACKAGE_RECOMMENDS "cuda-cudart-${cuda_release}, libcublas-${cuda_release}, libcudnn9-cuda-${CUDAToolkit_VERSION_MAJOR}")
  if(NCCL_INCLUDE_DIR)
    string(APPEND CPACK_DEBIAN_CUDA_PACKAGE_RECOMMENDS ", libnccl2")
  endif()
  get_filename_component(cudnn_folder ${CUDNN_LIBRARY} DIRECTORY)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CUDAToolkit_LIBRARY_DIR} ${cudnn_folder})
endif()
set(CPACK_DEBIAN_CUDA_DESCRIPTION "trains convolutional networks on several devices: NVIDIA GPUs
The module that the command of Colonnade loads for --backend=cuda: kernels,
and the calls of CUDA, cuDNN, cuBLAS and NCCL. It needs NVIDIA's driver, and
these libraries from NVIDIA's packages or where the loader finds them.")
include(CPack)
