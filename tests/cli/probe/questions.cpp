// Interviews without a person: every answer of every question, and every pair of answers to
// neighbouring questions, each in one interview at least. Prints them as JSON, with the files.
#include <algorithm>
#include <deque>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/formats/documents/json.h"
#include "cli/questions/interview.h"

namespace accelerate::cli {
namespace {

using Texts = std::vector<std::string>;

struct Asked {
  std::string question;
  std::string answer;
  std::size_t place = 0;  // Of the choice, in a menu.
  Question::Kind kind = Question::Kind::text;
  Texts alternatives;
};

bool is_answer(const Question& question, const std::string& typed) {
  try {
    (void)question.answer_of(typed);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

// All answers of a menu; two of a text.
Texts answers_of(const Question& question) {
  if (question.kind == Question::Kind::menu) return question.choices;
  if (question.kind == Question::Kind::yes_no) return {"yes", "no"};
  Texts found;
  for (const std::string& typed : {question.fallback, std::string("2"), std::string("4"),
                                   std::string("some,Thing: of\u00e9"), std::string("0.5")})
    if (found.size() < 2 && (!typed.empty() || question.may_be_empty) && is_answer(question, typed))
      found.push_back(typed);
  return found;
}

// Answers as it was told, and usually from there on.
class Script final : public Respondent {
 public:
  explicit Script(Texts answers) : answers_(std::move(answers)) {}

  std::string answer(const Question& question) override {
    const Texts all = answers_of(question);
    const bool is_told = asked.size() < answers_.size();
    const std::string usual = question.fallback.empty() ? all.front() : question.fallback;
    const std::string given = question.answer_of(is_told ? answers_[asked.size()] : usual);
    const auto place = std::ranges::find(question.choices, given) - question.choices.begin();
    asked.push_back({question.text, given, static_cast<std::size_t>(place), question.kind, all});
    return given;
  }
  void tell(const Note&) override {}

  std::vector<Asked> asked;

 private:
  Texts answers_;
};

Node node_of(const std::vector<Asked>& asked, const ConfigDraft& draft) {
  constexpr const char* kKinds[] = {"menu", "yes_no", "text"};
  Node answers = Node::sequence();
  for (const Asked& one : asked)
    answers.items.push_back(
        Node::map({{"question", 0, Node::string(one.question)},
                   {"answer", 0, Node::string(one.answer)},
                   {"place", 0, Node::integer(static_cast<std::int64_t>(one.place))},
                   {"kind", 0, Node::string(kKinds[static_cast<int>(one.kind)])}}));
  return Node::map({{"answers", 0, std::move(answers)},
                    {"yaml", 0, Node::string(draft.yaml)},
                    {"json", 0, Node::string(draft.json)}});
}

// Every interview begins with the answers before its last one in another that was held.
Node all_interviews() {
  std::set<Texts> seen;  // {question before, its answer, question, answer}
  std::deque<Texts> scripts{{}};
  Node interviews = Node::sequence();
  while (!scripts.empty()) {
    Script script(scripts.front());
    scripts.pop_front();
    const ConfigDraft draft = interview(script);
    Texts before;
    Asked last;
    for (const Asked& one : script.asked) {
      seen.insert({last.question, last.answer, one.question, one.answer});
      for (const std::string& other : one.alternatives) {
        if (!seen.insert({last.question, last.answer, one.question, other}).second) continue;
        scripts.push_back(before);
        scripts.back().push_back(other);
      }
      before.push_back(one.answer);
      last = one;
    }
    interviews.items.push_back(node_of(script.asked, draft));
  }
  return interviews;
}

}  // namespace
}  // namespace accelerate::cli

int main() {
  std::cout << accelerate::write_json(accelerate::cli::all_interviews());
}
