# A project outside the tree builds against the installed library and runs; a LibTorch of another minor
# version than the one it was built with is refused with a sentence.
include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/fake_libtorch.cmake")

install_and_move()
build_consumer(consumer "-DTORCH_INSTALL_PREFIX=${LIBTORCH}")
step("${WORK}/build/consumer")
if(NOT output MATCHES "accelerate.cpp works from here")
  message(FATAL_ERROR "the consumer said: ${output}")
endif()

if(EXISTS "${WORK}/build/rows_consumer")
  file(WRITE "${WORK}/rows.json" "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": 0}\n")
  step("${WORK}/build/rows_consumer" "${WORK}/rows.json" "${SOURCE}/tests/reference/rows.parquet")
  set(parquet "pip install pyarrow")
  if(EXISTS "${BUILD}/accelerate/libaccelerate_parquet.so" AND NOT SANITIZE MATCHES address)
    set(parquet "1000 rows of Parquet")
  endif()
  if(NOT output MATCHES "a 1\nb 0\n.*${parquet}")
    message(FATAL_ERROR "the consumer of rows said: ${output}")
  endif()
endif()

file(GLOB_RECURSE leaked "${WORK}/prefix/*gloo_headers*")
if(leaked)
  message(FATAL_ERROR "our stand-ins for Gloo's headers were installed: ${leaked}")
endif()

step("${WORK}/prefix/${BINDIR}/accelerate" --version)

# A family of models that is left out is missed by name, when one of its types is asked for.
file(GLOB_RECURSE decoders "${WORK}/prefix/*libaccelerate_decoders.so")
if(decoders)
  file(WRITE "${WORK}/decoder/config.json" "{\"model_type\": \"llama\"}")
  set(estimate "${WORK}/prefix/${BINDIR}/accelerate" estimate-memory "${WORK}/decoder")
  step(${estimate})
  file(RENAME "${decoders}" "${decoders}.away")
  failing_step("models of type 'llama' are in libaccelerate_decoders.so, which is not in .*Build the target accelerate_decoders" ${estimate})
  file(RENAME "${decoders}.away" "${decoders}")
endif()

foreach(file man/man1/accelerate-launch.1 bash-completion/completions/accelerate zsh/site-functions/_accelerate
             fish/vendor_completions.d/accelerate.fish)
  if(NOT EXISTS "${WORK}/prefix/share/${file}")
    message(FATAL_ERROR "share/${file} was not installed")
  endif()
endforeach()

# What messages name is there.
foreach(file docs/config_keys.md examples/README.md examples/fsdp/fsdp.yaml)
  if(NOT EXISTS "${WORK}/prefix/share/doc/Accelerate/${file}")
    message(FATAL_ERROR "share/doc/Accelerate/${file} was not installed")
  endif()
endforeach()

# A new project from the installed package builds, trains and passes its own test.
if(NOT SANITIZE)
  step("${WORK}/prefix/${BINDIR}/accelerate" init "${WORK}/fresh")
  if(NOT output MATCHES "cmake -B build -DCMAKE_PREFIX_PATH=${WORK}/prefix && cmake --build build\n *${WORK}/prefix/${BINDIR}/accelerate launch")
    message(FATAL_ERROR "commands that find neither the package nor the program: ${output}")
  endif()
  # Without a Python that has LibTorch the package knows the one that it was built with.
  step("${CMAKE_COMMAND}" -S "${WORK}/fresh" -B "${WORK}/fresh/build" "-DCMAKE_PREFIX_PATH=${WORK}/prefix"
       -DLibTorch_PYTHON=/bin/false)
  step("${CMAKE_COMMAND}" --build "${WORK}/fresh/build")
  step("${CMAKE_CTEST_COMMAND}" --test-dir "${WORK}/fresh/build" --output-on-failure)
  step("${WORK}/prefix/${BINDIR}/accelerate" launch --config_file "${WORK}/fresh/accelerate.yaml" "${WORK}/fresh/build/train"
       --epochs 30 --output "${WORK}/fresh/run")
  if(NOT output MATCHES "test accuracy: (0\\.9|1\\.0)" OR NOT EXISTS "${WORK}/fresh/run/model/model.safetensors")
    message(FATAL_ERROR "the new project said: ${output}")
  endif()
  step("${WORK}/prefix/${BINDIR}/accelerate" test --config_file "${WORK}/fresh/accelerate.yaml")

  # The program of the page, in its place, prints what the page says.
  file(READ "${SOURCE}/docs/first_program.md" page)
  string(REGEX MATCH "```cpp\n([^`]+)```" program "${page}")
  file(WRITE "${WORK}/fresh/train.cpp" "${CMAKE_MATCH_1}")
  string(REGEX MATCHALL "```text\n[^`]+" outputs "${page}")
  step("${CMAKE_COMMAND}" --build "${WORK}/fresh/build")
  foreach(processes RANGE 1 2)
    step("${WORK}/prefix/${BINDIR}/accelerate" launch --config_file "${WORK}/fresh/accelerate.yaml"
         --num_processes ${processes} "${WORK}/fresh/build/train" WORKING_DIRECTORY "${WORK}")
    list(POP_FRONT outputs expected)
    string(REPLACE "```text\n" "" expected "${expected}")
    foreach(text expected output) # Other machines round otherwise.
      string(REGEX REPLACE "(\\.[0-9]+)[0-9][0-9]\n" "\\1\n" ${text} "${${text}}")
    endforeach()
    string(FIND "${output}" "${expected}" place)
    if(place EQUAL -1)
      message(FATAL_ERROR "${processes} processes said: ${output}, the page: ${expected}")
    endif()
  endforeach()
endif()

fake_libtorch("${WORK}/other" 2.11.0)
if(NOT LIBTORCH_VERSION MATCHES "^2\\.11")
  failing_step("was built with LibTorch ${LIBTORCH_VERSION}, but 2.11.0 was found;TORCH_INSTALL_PREFIX"
    "${CMAKE_COMMAND}" -G Ninja -S "${CMAKE_CURRENT_LIST_DIR}/consumer" -B "${WORK}/refused"
    "-DCMAKE_PREFIX_PATH=${WORK}/prefix" "-DTORCH_INSTALL_PREFIX=${WORK}/other")
endif()
