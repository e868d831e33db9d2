# Tests that run whole programs: the tools, the installed package, the examples, the originals in Python.
add_subdirectory(install)

set(live_python "${ACCELERATE_TEST_PYTHON}")
if(NOT EXISTS "${live_python}") # The tests then say that they were skipped.
  set(live_python "${Python3_EXECUTABLE}")
endif()

if(Python3_Interpreter_FOUND)
  foreach(tool add_to_corpus check_errors check_layers check_names check_translations check_words fetch_models gpu_check)
    add_test(NAME tools.${tool} COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tests/tools/${tool}_test.py")
  endforeach()
  # Every public name of Python Accelerate, and what the migrating page says of it.
  add_test(NAME tools.check_python_names
           COMMAND "${live_python}" "${PROJECT_SOURCE_DIR}/tests/tools/check_python_names_test.py")
  set_tests_properties(tools.check_python_names PROPERTIES SKIP_REGULAR_EXPRESSION "skipped=")
  add_test(NAME docs COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tools/check_docs.py")
  # Every error that has a name has its section.
  add_test(NAME docs.errors COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tools/check_errors.py")
  add_test(NAME docs.words COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tools/check_words.py" --check
                                   README.md README.zh.md HACKING.md examples/README.md docs)
  set_tests_properties(docs.words PROPERTIES WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  # The Chinese pages say what the English ones say.
  add_test(NAME docs.translations COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tools/check_translations.py")
  # The site, built and looked through; then in Chromium.
  set(site "${PROJECT_SOURCE_DIR}/tests/docs")
  add_test(NAME docs.site COMMAND ${Python3_EXECUTABLE} "${site}/site_test.py" "${PROJECT_BINARY_DIR}/site")
  set_tests_properties(docs.site PROPERTIES TIMEOUT 400 COST 20 PROCESSORS 2 SKIP_RETURN_CODE 77 FIXTURES_SETUP site)
  add_test(NAME docs.site_browser COMMAND ${Python3_EXECUTABLE} "${site}/site_browser.py" "${PROJECT_BINARY_DIR}/site")
  set_tests_properties(docs.site_browser PROPERTIES TIMEOUT 400 COST 10 SKIP_RETURN_CODE 77 FIXTURES_REQUIRED site)
  # Every program and every command of the pages.
  if(TARGET accelerate_transformers)
    add_test(NAME docs.programs
             COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tests/docs/programs_test.py" -- ${CMAKE_CXX_COMPILER} -std=c++20
                     "-I${PROJECT_SOURCE_DIR}" -isystem "$<JOIN:${libtorch_includes},;-isystem;>"
             COMMAND_EXPAND_LISTS)
    set_tests_properties(docs.programs PROPERTIES TIMEOUT 600 COST 60 PROCESSORS 2)
  endif()
  if(TARGET accelerate_program)
    add_test(NAME docs.commands COMMAND "${live_python}" -W ignore "${PROJECT_SOURCE_DIR}/tests/docs/commands_test.py" "${PROJECT_BINARY_DIR}")
    set_tests_properties(docs.commands PROPERTIES TIMEOUT 300 COST 20 SKIP_RETURN_CODE 77)
    add_test(NAME docs.flags COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tools/write_flags.py" $<TARGET_FILE:accelerate_program> --check)
  endif()
  add_test(NAME benchmarks.compare
           COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tests/benchmarks/compare_test.py")
endif()

# The store of several machines against c10d's, and a job with a launcher of torchrun.
if(TARGET accelerate_program)
  add_test(NAME launch.store_live COMMAND "${live_python}" -W ignore "${PROJECT_SOURCE_DIR}/tests/launch/machines/store_live.py"
                                          $<TARGET_FILE:accelerate_program> --calls 300)
  add_test(NAME launch.logs_live COMMAND "${live_python}" -W ignore "${PROJECT_SOURCE_DIR}/tests/launch/output/logs_live.py"
                                         $<TARGET_FILE:accelerate_program> $<TARGET_FILE:failing_probe>)
  set_tests_properties(launch.logs_live PROPERTIES TIMEOUT 300 COST 15 SKIP_RETURN_CODE 77 LABELS "launch;live")
  set_tests_properties(launch.store_live PROPERTIES TIMEOUT 300 COST 20 SKIP_RETURN_CODE 77 LABELS "launch;live")
endif()

# Ranks, launchers, machines and links that fail at random.
if(TARGET accelerate_program AND TARGET template_trainer AND Python3_Interpreter_FOUND)
  add_test(NAME launch.random_kills COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tests/launch/machines/random_kills.py"
                                            "${PROJECT_BINARY_DIR}")
  set_tests_properties(launch.random_kills PROPERTIES TIMEOUT 600 COST 20 SKIP_RETURN_CODE 77 LABELS "launch;faults")
endif()

# How the original calls mpirun.
if(TARGET accelerate_program)
  add_test(NAME launch.mpirun_live COMMAND "${live_python}" "${PROJECT_SOURCE_DIR}/tests/launch/machines/mpirun_live.py"
                                           $<TARGET_FILE:accelerate_program>)
  set_tests_properties(launch.mpirun_live PROPERTIES TIMEOUT 300 COST 10 SKIP_RETURN_CODE 77 LABELS "launch;live")
endif()

# What ranks on two machines are told, beside Python's launcher and torchrun.
if(TARGET accelerate_program)
  add_test(NAME launch.environment_live COMMAND "${live_python}" -W ignore "${PROJECT_SOURCE_DIR}/tests/launch/machines/environment_live.py"
                                                $<TARGET_FILE:accelerate_program>)
  set_tests_properties(launch.environment_live PROPERTIES TIMEOUT 300 COST 15 SKIP_RETURN_CODE 77 LABELS "launch;live")
endif()

# Manifests of Kubernetes: their schemas, and the job that each starts.
if(TARGET accelerate_program)
  add_test(NAME examples.kubernetes COMMAND "${live_python}" "${PROJECT_SOURCE_DIR}/tests/examples/kubernetes_test.py"
                                            $<TARGET_FILE:accelerate_program>)
  set_tests_properties(examples.kubernetes PROPERTIES TIMEOUT 300 COST 10 SKIP_RETURN_CODE 77 LABELS "examples")
endif()

# Tokenizers and the hub's cache against the originals.
if(TARGET accelerate_tokenizers)
  set(live_tokenizers "${live_python}" "${PROJECT_SOURCE_DIR}/tests/transformers/tokenizers/live_test.py")
  # Real tokenizers are fetched once for those that need them.
  foreach(kind fetch components fortunes stress random folders sections sentencepiece)
    add_test(NAME tokenizers.live.${kind} COMMAND ${live_tokenizers} ${kind} "${PROJECT_BINARY_DIR}")
    set_tests_properties(tokenizers.live.${kind} PROPERTIES TIMEOUT 3000 COST 30 SKIP_RETURN_CODE 77 LABELS "tokenizers;live"
                         FIXTURES_REQUIRED real_tokenizers)
  endforeach()
  set_tests_properties(tokenizers.live.components tokenizers.live.sections PROPERTIES FIXTURES_REQUIRED "")
  set_tests_properties(tokenizers.live.fetch PROPERTIES COST 60 FIXTURES_REQUIRED "" FIXTURES_SETUP real_tokenizers)
  add_test(NAME hub.live COMMAND "${live_python}" "${PROJECT_SOURCE_DIR}/tests/reference/hub_cache_live.py"
                                 $<TARGET_FILE:hub_cache_probe>)
  set_tests_properties(hub.live PROPERTIES TIMEOUT 600 COST 20 LABELS "hub;live")
  # The server that the others ask proves itself with Python's client.
  add_test(NAME hub.live.server COMMAND "${live_python}" "${PROJECT_SOURCE_DIR}/tests/transformers/hub/server/hub_server_test.py")
  add_test(NAME hub.live.cache_scan COMMAND "${live_python}" "${PROJECT_SOURCE_DIR}/tests/transformers/hub/cache_scan_live.py"
                                            $<TARGET_FILE:cache_scan_probe> --caches 100)
  add_test(NAME hub.live.model_card COMMAND "${live_python}" "${PROJECT_SOURCE_DIR}/tests/transformers/hub/model_card_live.py"
                                            $<TARGET_FILE:model_card_probe>)
  foreach(kind download failures upload upload_failures)
    add_test(NAME hub.live.${kind} COMMAND "${live_python}" "${PROJECT_SOURCE_DIR}/tests/transformers/hub/${kind}_live.py"
                                           $<TARGET_FILE:hub_client_probe>)
  endforeach()
  if(TARGET accelerate_program)
    add_test(NAME hub.live.commands COMMAND "${live_python}" "${PROJECT_SOURCE_DIR}/tests/transformers/hub/commands_live.py"
                                            $<TARGET_FILE:accelerate_program>)
    set_tests_properties(hub.live.commands PROPERTIES TIMEOUT 600 COST 20 LABELS "hub;live")
  endif()
  set_tests_properties(hub.live.server hub.live.cache_scan hub.live.model_card hub.live.download hub.live.failures hub.live.upload hub.live.upload_failures
                       PROPERTIES TIMEOUT 600 COST 20 LABELS "hub;live" SKIP_RETURN_CODE 77)
endif()

if(TARGET accelerate_transformers)
  add_test(NAME hub.live.by_name COMMAND "${live_python}" -W ignore "${PROJECT_SOURCE_DIR}/tests/transformers/hub/by_name_live.py"
                                         $<TARGET_FILE:by_name_probe>)
  set_tests_properties(hub.live.by_name PROPERTIES TIMEOUT 600 COST 20 LABELS "hub;live")
endif()

# Datasets against answers of Python `datasets`, collators against Transformers.
if(TARGET accelerate_transformers)
  add_test(NAME datasets.golden COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tests/reference/datasets_golden.py"
                                        $<TARGET_FILE:dataset_probe>)
  add_test(NAME datasets.golden.files COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tests/reference/datasets_golden.py"
                                              $<TARGET_FILE:dataset_probe> "${PROJECT_SOURCE_DIR}/tests/reference/dataset_files.json")
  add_test(NAME datasets.live.collators COMMAND "${live_python}" -W ignore "${PROJECT_SOURCE_DIR}/tests/reference/collators_live.py"
                                                $<TARGET_FILE:collator_probe>)
  add_test(NAME datasets.live.parquet COMMAND "${live_python}" "${PROJECT_SOURCE_DIR}/tests/transformers/datasets/parquet_live.py"
                                              $<TARGET_FILE:dataset_probe>)
  set_tests_properties(datasets.golden datasets.golden.files datasets.live.collators datasets.live.parquet PROPERTIES TIMEOUT 600 COST 10 LABELS "datasets;live" SKIP_RETURN_CODE 77)
endif()

# Questions that write a configuration.
if(TARGET accelerate_program)
  add_test(NAME cli.live.questions COMMAND "${live_python}" -W ignore "${PROJECT_SOURCE_DIR}/tests/cli/questions_live.py"
                                           $<TARGET_FILE:questions_probe>)
  add_test(NAME cli.live.config COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tests/cli/config_terminal_live.py"
                                        $<TARGET_FILE:accelerate_program>)
  add_test(NAME cli.live.to_fsdp2 COMMAND "${live_python}" -W ignore "${PROJECT_SOURCE_DIR}/tests/cli/to_fsdp2_live.py"
                                          $<TARGET_FILE:accelerate_program>)
  set_tests_properties(cli.live.questions cli.live.config cli.live.to_fsdp2 PROPERTIES TIMEOUT 300 COST 20 LABELS "cli;live" SKIP_RETURN_CODE 77)
  if(TARGET accelerate_torch)
    add_test(NAME cli.live.self_test COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tests/cli/self_test_live.py"
                                             $<TARGET_FILE:accelerate_program>)
    add_test(NAME cli.live.estimate_memory COMMAND "${live_python}" -W ignore "${PROJECT_SOURCE_DIR}/tests/cli/estimate_memory_live.py"
                                                   $<TARGET_FILE:accelerate_program>)
    set_tests_properties(cli.live.self_test cli.live.estimate_memory PROPERTIES TIMEOUT 600 COST 40 LABELS "cli;live" SKIP_RETURN_CODE 77)
    set_tests_properties(cli.live.self_test PROPERTIES PROCESSORS 2)
  endif()
endif()

# Files of torch.save that are written here, read by PyTorch.
if(TARGET accelerate_program)
  add_test(NAME formats.live.torch_archive COMMAND "${live_python}" "${PROJECT_SOURCE_DIR}/tests/reference/torch_archive_writer_live.py"
                                                   $<TARGET_FILE:accelerate_program>)
  set_tests_properties(formats.live.torch_archive PROPERTIES TIMEOUT 300 COST 8 LABELS "formats;live" SKIP_RETURN_CODE 77)
endif()

# Pages and screens of runs. The page in a browser is part of `scripts/test --extended`.
if(TARGET accelerate_program)
  set(watch_tests "${PROJECT_SOURCE_DIR}/tests/watch")
  add_test(NAME watch.live.page COMMAND ${Python3_EXECUTABLE} "${watch_tests}/page/page_live.py" $<TARGET_FILE:accelerate_program> page)
  add_test(NAME watch.live.python COMMAND "${live_python}" -W ignore "${watch_tests}/page/page_live.py" $<TARGET_FILE:accelerate_program> python)
  add_test(NAME watch.live.watch COMMAND ${Python3_EXECUTABLE} "${watch_tests}/terminal/watch_live.py" $<TARGET_FILE:accelerate_program>)
  set_tests_properties(watch.live.page watch.live.python watch.live.watch
                       PROPERTIES TIMEOUT 300 COST 12 LABELS "watch;live" SKIP_RETURN_CODE 77)
endif()

# Metrics against answers of scikit-learn, SciPy and seqeval.
if(TARGET accelerate_transformers)
  add_test(NAME trainer.golden.metrics
           COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tests/transformers/trainer/metrics_live.py" $<TARGET_FILE:metrics_probe>
                   --golden "${PROJECT_SOURCE_DIR}/tests/reference/metrics_golden.json")
  set_tests_properties(trainer.golden.metrics PROPERTIES TIMEOUT 600 COST 10 LABELS trainer)
  # Whole trainings beside Transformers' Trainer.
  if(TARGET accelerate_program)
    add_test(NAME trainer.preemption COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tests/transformers/trainer/preemption_test.py"
                                             $<TARGET_FILE:accelerate_program> $<TARGET_FILE:preempted_probe>)
    set_tests_properties(trainer.preemption PROPERTIES TIMEOUT 600 COST 30 PROCESSORS 2 LABELS "trainer;faults")
    add_test(NAME trainer.live.loop COMMAND "${live_python}" -W ignore "${PROJECT_SOURCE_DIR}/tests/transformers/trainer/loop_live.py" $<TARGET_FILE:trainer_probe>
                                            --quick --launcher $<TARGET_FILE:accelerate_program>)
    add_test(NAME trainer.live.evaluation COMMAND "${live_python}" -W ignore "${PROJECT_SOURCE_DIR}/tests/transformers/trainer/evaluation_live.py"
                                                  $<TARGET_FILE:trainer_probe> --launcher $<TARGET_FILE:accelerate_program>)
    set_tests_properties(trainer.live.loop trainer.live.evaluation PROPERTIES TIMEOUT 900 COST 60 PROCESSORS 2 LABELS "trainer;live" SKIP_RETURN_CODE 77)
  endif()
endif()

# Models against Transformers: small random ones of every architecture, and a trained one.
if(TARGET accelerate_transformers)
  add_test(NAME models.live.outputs COMMAND "${live_python}" -W ignore "${PROJECT_SOURCE_DIR}/tests/reference/models_live.py"
                                            $<TARGET_FILE:model_probe> --least 13000)
  add_test(NAME models.live.files COMMAND "${live_python}" -W ignore "${PROJECT_SOURCE_DIR}/tests/reference/model_files_live.py"
                                          $<TARGET_FILE:model_probe> --least 4000)
  set(matrix_libraries mkl)
  if(EXISTS /proc/cpuinfo)
    file(READ /proc/cpuinfo processors)
    if(processors MATCHES " avx512bw .*avx512vl") # Without it LibTorch has no way to oneDNN.
      list(APPEND matrix_libraries onednn)
    endif()
  endif()
  foreach(library ${matrix_libraries}) # Whoever multiplies.
    add_test(NAME models.live.minilm.${library} COMMAND "${live_python}" -W ignore "${PROJECT_SOURCE_DIR}/tests/reference/minilm_live.py"
                                                        $<TARGET_FILE:model_probe> "${PROJECT_BINARY_DIR}/real_tokenizers")
  endforeach()
  add_test(NAME models.live.sentences COMMAND "${live_python}" -W ignore "${PROJECT_SOURCE_DIR}/tests/reference/sentences_live.py" $<TARGET_FILE:model_probe>)
  add_test(NAME models.live.gguf COMMAND "${live_python}" -W ignore "${PROJECT_SOURCE_DIR}/tests/reference/gguf_live.py"
                                         $<TARGET_FILE:model_probe> --least 500)
  add_test(NAME models.live.generation COMMAND "${live_python}" -W ignore "${PROJECT_SOURCE_DIR}/tests/reference/generation_live.py"
                                               $<TARGET_FILE:model_probe> --least 500)
  set_tests_properties(models.live.outputs models.live.files models.live.sentences models.live.gguf models.live.generation
                       PROPERTIES TIMEOUT 900 COST 20 LABELS "models;live" SKIP_RETURN_CODE 77 ENVIRONMENT OMP_NUM_THREADS=1)
  foreach(library ${matrix_libraries})
    set_tests_properties(models.live.minilm.${library} PROPERTIES TIMEOUT 900 COST 20 LABELS "models;live" SKIP_RETURN_CODE 77
                         FIXTURES_REQUIRED real_tokenizers ENVIRONMENT "OMP_NUM_THREADS=1;ACCELERATE_CPU_MATMUL=${library}")
  endforeach()
endif()

function(accelerate_example_test name program)
  if(TARGET ${program})
    add_test(NAME examples.cv.${name} COMMAND "${live_python}" "${PROJECT_SOURCE_DIR}/tests/examples/cv_test.py"
                                              "${PROJECT_BINARY_DIR}" ${name})
    set_tests_properties(examples.cv.${name} PROPERTIES TIMEOUT 900 COST 35 PROCESSORS 2 SKIP_REGULAR_EXPRESSION "skipped=")
  endif()
endfunction()
accelerate_example_test(BadInput cv_plain)
if(TARGET accelerate_program)
  accelerate_example_test(Training cv_accelerated)
endif()
if(TARGET text)
  add_test(NAME examples.text COMMAND "${live_python}" "${PROJECT_SOURCE_DIR}/tests/examples/text_test.py"
                                      "${PROJECT_BINARY_DIR}")
  set_tests_properties(examples.text PROPERTIES SKIP_REGULAR_EXPRESSION "skipped=")
endif()
if(TARGET accelerate_program AND TARGET nlp_accelerated)
  add_test(NAME examples.trainer COMMAND "${live_python}" -W ignore "${PROJECT_SOURCE_DIR}/tests/examples/trainer_test.py"
                                         "${PROJECT_BINARY_DIR}")
  set_tests_properties(examples.trainer PROPERTIES TIMEOUT 900 COST 60 PROCESSORS 2 SKIP_REGULAR_EXPRESSION "skipped=")
  add_test(NAME examples.models COMMAND "${live_python}" "${PROJECT_SOURCE_DIR}/tests/examples/models_test.py"
                                        "${PROJECT_BINARY_DIR}")
  set_tests_properties(examples.models PROPERTIES TIMEOUT 900 COST 15 PROCESSORS 2 SKIP_REGULAR_EXPRESSION "skipped=")
endif()
if(TARGET accelerate_program AND TARGET gradient_accumulation_accelerated AND Python3_Interpreter_FOUND)
  add_test(NAME examples.features COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tests/examples/features_test.py"
                                          "${PROJECT_BINARY_DIR}")
  set_tests_properties(examples.features PROPERTIES TIMEOUT 900 COST 16 PROCESSORS 2)
  if(TARGET classify_csv)
    add_test(NAME examples.cookbook COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tests/examples/cookbook_test.py"
                                            "${PROJECT_BINARY_DIR}")
    set_tests_properties(examples.cookbook PROPERTIES TIMEOUT 900 COST 25 PROCESSORS 2)
  endif()
  add_test(NAME examples.fsdp COMMAND ${Python3_EXECUTABLE} "${PROJECT_SOURCE_DIR}/tests/examples/fsdp_test.py"
                                      "${PROJECT_BINARY_DIR}")
  set_tests_properties(examples.fsdp PROPERTIES TIMEOUT 900 COST 45 PROCESSORS 2)
endif()
