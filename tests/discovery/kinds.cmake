# Sets KIND of a suite, its second label beside the folder's, and COST in seconds, by which ctest starts the long ones first.
#   faults   ranks that are killed, stopped or stuck, and disks that fail
#   memory   what processes take
#   live     comparisons with the Python originals
#   quick    the rest
function(accelerate_kind_of_suite suite kind cost)
  set(found quick)
  set(seconds 1)
  if(suite MATCHES "Fault|Fail|Kill|Mishap|Crash|Adversar|Lost|Hang")
    set(found faults)
    set(seconds 10)
  elseif(suite MATCHES "Memory(Test)?$|MemoryUse|^Memory")
    set(found memory)
    set(seconds 10)
  elseif(suite MATCHES "Live|Python|Upstream")
    set(found live)
    set(seconds 20)
  endif()
  set(${kind} ${found} PARENT_SCOPE)
  set(${cost} ${seconds} PARENT_SCOPE)
endfunction()
