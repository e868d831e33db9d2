// The questions about Amazon SageMaker. The file has other keys, which only Python reads.
#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "cli/questions/interview.h"

namespace accelerate::cli {
namespace {

class SageMakerInterview {
 public:
  explicit SageMakerInterview(Respondent& respondent) : ask_(respondent, compiled_) {}

  Node run() {
    ask_.tell_for_python("This version starts no jobs on Amazon SageMaker.");
    ask_account();
    ask_files();
    ask_machines();
    // The original writes these without asking.
    write("compute_environment", "AMAZON_SAGEMAKER");
    write("gpu_ids", "all");
    write("base_job_name", "accelerate-sagemaker-1");
    write("pytorch_version", "1.10.2");
    write("transformers_version", "4.17.0");
    write("py_version", "py38");
    write("use_cpu", Node::boolean(false));
    write("enable_cpu_affinity", Node::boolean(false));
    return Node::map(std::move(entries_));
  }

 private:
  void ask_account() {
    const std::string profile = "AWS Profile";
    const std::string way =
        ask_.menu("How do you authorize?",
                  {profile, "Credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)"}, profile,
                  "A profile is read from ~/.aws. Credentials are never written into the file.");
    if (way == profile)
      write("profile", ask_.text("What is the profile called?", "default", "As ~/.aws has it."));
    else
      ask_.tell("Give --aws_access_key_id and --aws_secret_access_key to `accelerate launch`.");
    write("region", ask_.text("Which region?", "us-east-1", "Of AWS, where the machines are."));
    const std::string made = "Provide IAM Role name";
    const std::string role =
        ask_.menu("Is there an IAM role for training jobs?",
                  {made, "Create new IAM role using credentials"}, made, "Jobs run in its name.");
    if (role == made) {
      write("iam_role_name", ask_.text("What is the role called?", "", "Jobs run in its name."));
    } else {
      ask_.tell("This version makes no roles. Make accelerate_sagemaker_execution_role at AWS.");
      write("iam_role_name", "accelerate_sagemaker_execution_role");
    }
  }

  // `yes`: asks whether there is such a file.
  void ask_file(const std::string& yes, const std::string& which, const std::string& key,
                const std::string& help) {
    if (ask_.yes(yes, false, help)) write(key, ask_.text(which, "", help));
  }

  void ask_files() {
    ask_file("Use a Docker image of your own?", "Which image?", "image_uri", "Jobs run in it.");
    ask_file("Are there input channels?", "Which file lists them?", "sagemaker_inputs_file",
             "A table with tabs, of the columns channel_name and data_location.");
    ask_file("Are there metrics?", "Which file lists them?", "sagemaker_metrics_file",
             "A table with tabs, of the columns metric_name and metric_regex.");
  }

  void ask_machines() {
    const std::string alone = "No distributed training";
    const bool is_alone = ask_.menu("What will you train on?", {alone, "Data parallelism"}, alone,
                                    "One process, or several with a share of each batch.") == alone;
    write("distributed_type", is_alone ? "NO" : "DATA_PARALLEL");
    if (ask_.yes("Compile programs by torch.compile?", false, "What torch.compile is told."))
      ask_dynamo();
    const std::string help = "The kind of machine that is rented.";
    const std::vector<std::string> large{"ml.p3.16xlarge", "ml.p3dn.24xlarge", "ml.p4dn.24xlarge"};
    write("ec2_instance_type", is_alone
                                   ? lower(ask_.text("Which EC2 instances?", "ml.p3.2xlarge", help))
                                   : ask_.menu("Which EC2 instances?", large, large.front(), help));
    const bool is_checked =
        !is_alone &&
        ask_.yes("Check the tensors of each collective? It takes time.", false, help_of("debug"));
    write("debug", Node::boolean(is_checked));
    const std::int64_t machines =
        is_alone ? 1 : ask_.number_for("num_machines", "How many machines take part?", "1");
    write("num_machines", Node::integer(machines));
    write("mixed_precision", ask_.menu("Which mixed precision?", enum_names<MixedPrecision>(), "no",
                                       help_of("mixed_precision")));
  }

  void ask_dynamo() {
    ask_about_dynamo(ask_);
    Node section = Node::map();
    for (const ConfigKey& key : config_keys()) {
      if (key.section != "dynamo_config") continue;
      const auto text = config_key_text(compiled_, key.name);
      if (!text) continue;
      const bool is_truth = key.type == "boolean";
      section.entries.push_back(
          {key.name, 0, is_truth ? Node::boolean(*text == "true") : Node::string(*text)});
    }
    write("dynamo_config", std::move(section));
  }

  void write(const std::string& key, Node value) { entries_.push_back({key, 0, std::move(value)}); }
  void write(const std::string& key, const std::string& text) { write(key, Node::string(text)); }

  ClusterConfig compiled_;  // Has the keys that both kinds of file have.
  Asking ask_;
  std::vector<NodeEntry> entries_;
};

}  // namespace

Node interview_about_sagemaker(Respondent& respondent) {
  return SageMakerInterview(respondent).run();
}

}  // namespace accelerate::cli
