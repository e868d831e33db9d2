#include "cli/questions/conversation.h"

#include <algorithm>
#include <map>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate::cli {
namespace {

struct WentBack {};

// Answers by question, and by how many questions with the same text came before.
using Remembered = std::map<std::pair<std::string, std::ptrdiff_t>, std::string>;

// Repeats the answers that are there, and asks the remaining questions.
class Conversation final : public Respondent {
 public:
  Conversation(FrontEnd& front_end, std::vector<Answered>& answers, Remembered& remembered)
      : front_end_(front_end), answers_(answers), remembered_(remembered) {}

  std::string answer(const Question& question) override {
    if (next_ < answers_.size()) return answers_[next_++].answer;
    std::string& before = remembered_[{question.text, times_asked(question)}];
    auto given = front_end_.ask(offering(question, before), answers_);
    if (!given) throw WentBack();
    before = *given;
    answers_.push_back({question.text, *given});
    ++next_;
    return *given;
  }

  void tell(const Note& note) override {
    notes.push_back(note);
    if (next_ == answers_.size()) front_end_.tell(note);
  }

  std::vector<Note> notes;

 private:
  [[nodiscard]] std::ptrdiff_t times_asked(const Question& question) const {
    return std::ranges::count(answers_, question.text, &Answered::question);
  }

  // Returns the question with its earlier answer as the usual one, if it is still allowed. Not for
  // a text that may be empty: it could then not be emptied.
  [[nodiscard]] static Question offering(Question question, const std::string& before) {
    if (before.empty() || question.may_be_empty) return question;
    try {
      question.fallback = question.answer_of(before);
    } catch (const ConfigError&) {
      // Other answers, given before it, now rule it out.
    }
    return question;
  }

  FrontEnd& front_end_;
  std::vector<Answered>& answers_;
  Remembered& remembered_;
  std::size_t next_ = 0;
};

}  // namespace

ConfigDraft converse(FrontEnd& front_end) {
  std::vector<Answered> answers;
  Remembered remembered;
  for (;;) {
    try {
      Conversation conversation(front_end, answers, remembered);
      ConfigDraft draft = interview(conversation);
      draft.notes = std::move(conversation.notes);
      return draft;
    } catch (const WentBack&) {
      if (!answers.empty()) answers.pop_back();
    }
  }
}

}  // namespace accelerate::cli
