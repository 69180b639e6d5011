# Whether the CUDA back end is built (docs/gpu.md), and how nvcc is called.
#
#   TROUPE_CUDA=AUTO  where nvcc is found and works (the default)
#   TROUPE_CUDA=ON    an error without it
#   TROUPE_CUDA=OFF   gpu/cuda_absent.cpp says that this build has no CUDA
#
# Sets TROUPE_HAS_CUDA and TROUPE_NVCC_FLAGS. The CUDA driver is not needed to build, only to run.
set(TROUPE_CUDA AUTO CACHE STRING "build the CUDA back end: AUTO (where nvcc is found), ON or OFF")
set_property(CACHE TROUPE_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT TROUPE_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "TROUPE_CUDA is ${TROUPE_CUDA}: it may be AUTO, ON or OFF")
endif()
set(TROUPE_HAS_CUDA OFF)

set(wanted ${TROUPE_CUDA})
if(wanted STREQUAL "AUTO" AND TROUPE_FUZZ)
  set(wanted OFF)  # the parsers that are fuzzed see no device
endif()
if(NOT wanted STREQUAL "OFF")
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(TROUPE_NVCC nvcc HINTS /usr/local/cuda/bin)
    if(TROUPE_NVCC)
      set(CMAKE_CUDA_COMPILER ${TROUPE_NVCC})
    endif()
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90)  # Hopper
  endif()
  # Hopper's own products (wgmma) are in the code for it alone (90a); newer GPUs compile what is in the code for 90.
  list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "^90a?(-real)?$" "90a-real;90-virtual")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 knows CUDA's standards up to 17
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    find_package(CUDAToolkit REQUIRED)
    set(TROUPE_HAS_CUDA ON)
  elseif(wanted STREQUAL "ON")
    message(FATAL_ERROR
            "TROUPE_CUDA=ON, but no working nvcc was found. Install the CUDA toolkit 13 (NVIDIA's "
            "apt repository: cuda-nvcc-13-0 cuda-cudart-dev-13-0 libcublas-dev-13-0) and put nvcc on "
            "PATH or set CUDACXX; or configure with -DTROUPE_CUDA=OFF.")
  endif()
endif()
if(TROUPE_HAS_CUDA)
  message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION}, for sm_${CMAKE_CUDA_ARCHITECTURES}")
  if(NOT "90a-real" IN_LIST CMAKE_CUDA_ARCHITECTURES)
    message(STATUS "CUDA: without Hopper's own products (90 is not in CMAKE_CUDA_ARCHITECTURES)")
  endif()
else()
  message(STATUS "CUDA: not built")
endif()

set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # linked by name: see gpu/cuda/CMakeLists.txt
# Warnings of nvcc, of ptxas and of the host compiler are errors. -Wshadow is left to the build of the same
# file by the host compiler alone (the emulated device): nvcc's own stubs shadow.
set(TROUPE_NVCC_FLAGS -Werror=all-warnings --expt-relaxed-constexpr -lineinfo
    -Xcompiler=-Wall,-Wextra,-Werror,-fno-omit-frame-pointer)
