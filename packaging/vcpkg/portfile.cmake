# vcpkg: builds the libraries of this tree, without the command, with the LibTorch in TORCH_INSTALL_PREFIX:
#   VCPKG_KEEP_ENV_VARS=TORCH_INSTALL_PREFIX vcpkg install accelerate-cpp --overlay-ports=packaging/vcpkg
set(SOURCE_PATH "${CURRENT_PORT_DIR}/../..")
set(VCPKG_BUILD_TYPE release)
if(NOT EXISTS "$ENV{TORCH_INSTALL_PREFIX}/lib/libtorch.so")
  message(FATAL_ERROR "There is no LibTorch in TORCH_INSTALL_PREFIX='$ENV{TORCH_INSTALL_PREFIX}'. It names an unpacked LibTorch, or the `torch` \
folder of a wheel; VCPKG_KEEP_ENV_VARS=TORCH_INSTALL_PREFIX lets vcpkg see it.")
endif()
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS "-DTORCH_INSTALL_PREFIX=$ENV{TORCH_INSTALL_PREFIX}" -DACCELERATE_BUILD_CLI=OFF -DACCELERATE_BUILD_TESTS=OFF -DACCELERATE_BUILD_EXAMPLES=OFF
          -DACCELERATE_CUDA=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME Accelerate CONFIG_PATH lib/cmake/Accelerate)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/doc")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE" "${SOURCE_PATH}/NOTICE")
