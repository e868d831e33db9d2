# LibTorch lies behind the link that the libraries of this package use too, unless TORCH_INSTALL_PREFIX names another.
unset(_accelerate_libtorch_problem)
if(NOT TORCH_INSTALL_PREFIX AND "$ENV{TORCH_INSTALL_PREFIX}" STREQUAL "")
  set(TORCH_INSTALL_PREFIX "${PACKAGE_PREFIX_DIR}/../etc/accelerate-cpp/libtorch")
  cmake_path(NORMAL_PATH TORCH_INSTALL_PREFIX)
  if(NOT EXISTS "${TORCH_INSTALL_PREFIX}")
    set(_accelerate_libtorch_problem "No LibTorch is set up: ${TORCH_INSTALL_PREFIX} leads nowhere. \
`sudo accelerate-cpp setup --torch DIR` makes it lead to one.")
  endif()
endif()
