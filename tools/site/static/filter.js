// A field above tables that shows only the rows with its words. The address keeps them: #filter=words.
(function () {
  "use strict";
  function start(box) {
    const article = box.closest("article");
    const rows = Array.from(article.querySelectorAll("table tbody tr")).map(function (row) {
      const name = row.cells[0].textContent.toLowerCase();
      return {row: row, name: name, text: row.textContent.toLowerCase()};
    });
    const sections = Array.from(article.querySelectorAll("section section"));
    const input = document.createElement("input");
    input.type = "search";
    input.placeholder = box.dataset.placeholder;
    input.setAttribute("aria-label", "Show only rows with these words");
    const count = document.createElement("span");
    count.setAttribute("aria-live", "polite");
    box.append(input, count);

    function apply() {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach(function (entry) {
        const hit = words.every(function (word) { return entry.text.includes(word); });
        entry.row.hidden = !hit;
        // What the name begins with comes first.
        entry.row.classList.toggle("begins", hit && words.length > 0 && entry.name.startsWith(words[0]));
        if (hit) shown++;
      });
      sections.forEach(function (section) {
        section.hidden = words.length > 0 && !section.querySelector("tbody tr:not([hidden])");
      });
      count.textContent = words.length ? shown + " of " + rows.length : rows.length + " names";
    }
    input.addEventListener("input", function () {
      history.replaceState(null, "", input.value ? "#filter=" + encodeURIComponent(input.value) : location.pathname);
      apply();
    });
    if (location.hash.startsWith("#filter=")) input.value = decodeURIComponent(location.hash.slice(8));
    apply();
  }
  document.addEventListener("DOMContentLoaded", function () { document.querySelectorAll(".name-filter").forEach(start); });
})();
