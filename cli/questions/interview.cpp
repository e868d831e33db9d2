#include "cli/questions/interview.h"

#include "accelerate/formats/documents/json.h"
#include "accelerate/formats/documents/yaml.h"

namespace accelerate::cli {

ConfigDraft interview(Respondent& respondent) {
  const std::string here = "This machine";
  const std::string place = respondent.answer(
      {.kind = Question::Kind::menu,
       .text = "Where will you train?",
       .help =
           "This machine, alone or with others like it; or machines rented at Amazon, on which "
           "Python's `accelerate launch` starts jobs. It is the key 'compute_environment' of the "
           "file.",
       .choices = {here, "AWS (Amazon SageMaker)"},
       .fallback = here});
  if (place == here) {
    const ClusterConfig config = interview_about_machines(respondent);
    return {to_yaml(config), to_json(config), {}};
  }
  const Node file = interview_about_sagemaker(respondent);
  return {write_yaml(file), write_json(file), {}};
}

}  // namespace accelerate::cli
