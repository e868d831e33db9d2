#include "accelerate/watch/page/report_page.h"

#include <array>

#include "accelerate/base/text.h"
#include "accelerate/watch/page/page_parts.h"
#include "accelerate/watch/run_log/display_text.h"

namespace accelerate {
namespace {

using detail::html_text;

std::string tile(const std::string& name, const std::string& value, const std::string& more = "") {
  if (value.empty()) return "";
  return "<div class=\"tile\"><dt>" + html_text(name, 80) + "</dt><dd>" + html_text(value, 80) +
         (more.empty() ? "" : " <small>" + html_text(more, 120) + "</small>") + "</dd></div>\n";
}

std::string optional_text(const std::optional<double>& value, std::string (*format)(double)) {
  return value ? format(*value) : "";
}

std::string progress_tile(const RunHistory& history) {
  const auto steps = history.begin ? history.begin->max_steps : std::nullopt;
  const std::string of = steps ? "of " + detail::grouped_text(*steps) : "";
  return tile("Step", detail::grouped_text(history.step), of);
}

std::string epoch_tile(const RunHistory& history) {
  const auto epochs = history.begin ? history.begin->num_train_epochs : std::nullopt;
  const std::string of = epochs ? "of " + detail::number_text(*epochs) : "";
  return tile("Epoch", optional_text(history.epoch, detail::number_text), of);
}

std::string best_tile(const RunSummary& summary) {
  if (!summary.best) return "";
  return tile("Best " + summary.best->name, detail::number_text(summary.best->value),
              "at step " + detail::grouped_text(summary.best->step));
}

std::string parameters_tile(const RunHistory& history) {
  if (!history.begin || !history.begin->parameters) return "";
  const auto all = *history.begin->parameters;
  const auto trained = history.begin->trained_parameters.value_or(all);
  return tile("Parameters", detail::scaled_text(static_cast<double>(all)),
              trained == all ? "" : detail::scaled_text(static_cast<double>(trained)) + " trained");
}

std::string final_loss_tile(const RunHistory& history) {
  if (!history.end) return "";
  for (const auto& [name, value] : history.end->metrics)
    if (name == "train_loss")
      return tile("Mean loss", detail::number_text(value), "of the training");
  return "";
}

std::string tiles(const RunHistory& history, const RunSummary& summary) {
  const std::size_t parts = history.segments.size();
  return "<dl class=\"tiles\">\n" + progress_tile(history) + epoch_tile(history) +
         tile("Duration", optional_text(summary.seconds, detail::duration_text),
              parts > 1 ? "in " + std::to_string(parts) + " parts" : "") +
         best_tile(summary) +
         tile("Loss", optional_text(summary.loss, detail::number_text), "newest") +
         final_loss_tile(history) +
         tile("Samples a second", optional_text(summary.samples_per_second, detail::scaled_text)) +
         tile("Tokens a second", optional_text(summary.tokens_per_second, detail::scaled_text)) +
         tile("Peak memory", optional_text(summary.memory_bytes, format_bytes)) +
         parameters_tile(history) + "</dl>\n";
}

void add_fact(std::string& facts, const std::string& fact) {
  if (!fact.empty()) facts += "<li>" + html_text(fact, 200) + "</li>";
}

template <typename Number>
void add_count(std::string& facts, const std::optional<Number>& count, std::string_view what) {
  if (count && *count >= 0)
    add_fact(facts,
             detail::grouped_text(*count) + " " + std::string(what) + (*count == 1 ? "" : "s"));
}

std::string facts_of(const RunHistory& history) {
  if (!history.begin) return "";
  const RunBegin& begin = *history.begin;
  std::string facts;
  add_fact(facts, begin.strategy);
  add_fact(facts, begin.precision);
  add_fact(facts, begin.device);
  if (begin.num_processes)
    add_fact(facts, detail::grouped_text(*begin.num_processes) +
                        (*begin.num_processes == 1 ? " process" : " processes"));
  add_count(facts, begin.train_examples, "example");
  if (begin.total_batch_size)
    add_fact(facts, "batch of " + detail::grouped_text(*begin.total_batch_size));
  if (begin.resumed_from) add_fact(facts, "resumed from " + *begin.resumed_from);
  const auto& first = history.segments.front();
  if (first.begin) add_fact(facts, "began " + detail::time_text(first.begin));
  return "<ul class=\"facts\">" + facts + "</ul>\n";
}

std::string_view mood_class(RunMood mood) {
  constexpr std::array<std::string_view, 4> kNames = {"good", "busy", "warning", "bad"};
  return kNames[static_cast<std::size_t>(mood)];
}

std::string header_html(const RunHistory& history, const RunSummary& summary,
                        const std::string& name) {
  const std::string model = history.begin ? history.begin->model : "";
  std::string bar;
  if (summary.fraction)
    bar = "<progress max=\"100\" value=\"" +
          std::to_string(static_cast<int>(*summary.fraction * 100)) +
          "\" aria-label=\"progress\"></progress>\n";
  return "<header>\n<p class=\"run\">" + html_text(name, 200) + "</p>\n<h1>" +
         html_text(model.empty() ? name : model, 200) + "</h1>\n<p class=\"status " +
         std::string(mood_class(summary.mood)) + "\">" + html_text(summary.status, 80) + "</p>\n" +
         bar + facts_of(history) + "</header>\n";
}

std::string footer_html(const RunHistory& history) {
  std::string text = "Made by accelerate report. Times are UTC.";
  if (history.ignored_lines > 0)
    text += " " + count_of(history.ignored_lines, "line") + " of the log could not be read.";
  return "<footer><p>" + text + "</p></footer>\n";
}

std::string charts_html(const RunHistory& history) {
  const std::string charts = detail::page_charts(history);
  if (charts.empty()) return "<p class=\"none\">Nothing was logged yet.</p>\n";
  const std::string marks = history.saves.empty()
                                ? ""
                                : "<p class=\"key\"><span class=\"saved\"></span> checkpoint "
                                  "<span class=\"best\"></span> best checkpoint</p>\n";
  return marks + "<div class=\"charts\">\n" + charts + "</div>\n";
}

std::string head_html(const std::string& name) {
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
         "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
         "style-src 'unsafe-inline'; script-src 'unsafe-inline'\"/>\n<title>" +
         html_text(name, 200) + "</title>\n<style>\n" + std::string(detail::page_style()) +
         "</style></head>\n";
}

}  // namespace

std::string report_page(const RunHistory& history, const std::string& name) {
  const RunSummary summary = summarise_run(history);
  return head_html(name) + "<body>\n" + header_html(history, summary, name) + "<main>\n" +
         tiles(history, summary) + charts_html(history) +
         detail::evaluation_table(history, summary) + detail::checkpoint_table(history) +
         detail::argument_table(history) + detail::note_table(history) + "</main>\n" +
         footer_html(history) + "<script>\n" + std::string(detail::page_script()) +
         "</script>\n</body></html>\n";
}

}  // namespace accelerate
