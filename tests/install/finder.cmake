# The finder takes LibTorch from each of the places it names, and says one useful sentence otherwise.
include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/fake_libtorch.cmake")

set(configure "${CMAKE_COMMAND}" -G Ninja -S "${CMAKE_CURRENT_LIST_DIR}/finder" "-DMODULES=${SOURCE}/cmake"
    -DLibTorch_PYTHON=/bin/false -B)
set(pinned "torch==2.13.0")

macro(expect_found place)
  if(NOT output MATCHES "found ${WORK}/${place}\n")
    message(FATAL_ERROR "expected LibTorch in ${WORK}/${place}:\n${output}")
  endif()
endmacro()

fake_libtorch("${WORK}/good" 2.13.0)
fake_libtorch("${WORK}/older" 2.11.1)
fake_libtorch("${WORK}/newer" 2.99.0)
fake_libtorch("${WORK}/too_old" 2.9.0)
fake_libtorch("${WORK}/unversioned" "")
file(MAKE_DIRECTORY "${WORK}/empty")

step(${configure} "${WORK}/a" "-DTORCH_INSTALL_PREFIX=${WORK}/good")
expect_found(good)
step(${configure} "${WORK}/a" "-DTORCH_INSTALL_PREFIX=${WORK}/older") # the same build folder, another place
expect_found(older)
step(${configure} "${WORK}/b" "-DCMAKE_PREFIX_PATH=${WORK}/good")
expect_found(good)
step("${CMAKE_COMMAND}" -E env "TORCH_INSTALL_PREFIX=${WORK}/good" ${configure} "${WORK}/c")
expect_found(good)

if(output MATCHES "newer")
  message(FATAL_ERROR "a tested LibTorch is not worth a warning:\n${output}")
endif()
step(${configure} "${WORK}/m" "-DTORCH_INSTALL_PREFIX=${WORK}/newer")
expect_found(newer)
string(REGEX REPLACE "[ \n]+" " " flat "${output}")
if(NOT flat MATCHES "LibTorch 2.99.0 in ${WORK}/newer is newer than")
  message(FATAL_ERROR "a LibTorch that no test has run with is worth a warning:\n${output}")
endif()

# A Python whose `torch` is the good one: what a wheel in a virtual environment looks like.
file(WRITE "${WORK}/python" "#!/bin/sh\necho '${WORK}/good'\n")
file(CHMOD "${WORK}/python" PERMISSIONS OWNER_READ OWNER_EXECUTE)
step(${configure} "${WORK}/d" "-DLibTorch_PYTHON=${WORK}/python")
expect_found(good)

# The last resort is one: it counts where nothing else is found, and only while it is there.
step(${configure} "${WORK}/j" "-DLibTorch_LAST_RESORT=${WORK}/good")
expect_found(good)
step(${configure} "${WORK}/k" "-DLibTorch_LAST_RESORT=${WORK}/good" "-DCMAKE_PREFIX_PATH=${WORK}/older")
expect_found(older)
failing_step("LibTorch was not found" ${configure} "${WORK}/l" "-DLibTorch_LAST_RESORT=${WORK}/empty")

failing_step("LibTorch was not found;scripts/setup;TORCH_INSTALL_PREFIX;${pinned}" ${configure} "${WORK}/e")
failing_step("LibTorch 2.9.0 in ${WORK}/too_old is not supported;2.11;${pinned}"
             ${configure} "${WORK}/f" "-DTORCH_INSTALL_PREFIX=${WORK}/too_old")
failing_step("in ${WORK}/unversioned is not supported;${pinned}"
             ${configure} "${WORK}/g" "-DTORCH_INSTALL_PREFIX=${WORK}/unversioned")
failing_step("TORCH_INSTALL_PREFIX is '${WORK}/empty', but there is no LibTorch in it;torch.h is missing"
             ${configure} "${WORK}/h" "-DTORCH_INSTALL_PREFIX=${WORK}/empty")
step(${configure} "${WORK}/i" "-DTORCH_INSTALL_PREFIX=${WORK}/too_old" -DOPTIONAL=ON)
if(NOT output MATCHES "not supported" OR NOT output MATCHES "found nothing")
  message(FATAL_ERROR "an optional LibTorch of another version must be told and not be used:\n${output}")
endif()
