# Compiles refused.cpp once (COMPILE: the command, as a list) and looks for each sentence beside the line that earns it.
execute_process(COMMAND ${COMPILE} OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE code)
if(code EQUAL 0)
  message(FATAL_ERROR "refused.cpp compiles")
endif()
foreach(refusal
    "torch_data_loader|hides its dataset and sampler.*make_data_loader"
    "pointer|unique_ptr<torch::nn::LinearImpl.*hand back unprepared"
    "scheduler_pointer|unique_ptr<accelerate::StepLR.*hand back unprepared"
    "temporary|temporary module or optimizer")
  string(REGEX REPLACE "^[a-z_]+\\|" "" sentence "${refusal}")
  if(NOT said MATCHES "${sentence}")
    message(SEND_ERROR "no error says '${sentence}':\n${said}")
  endif()
endforeach()
