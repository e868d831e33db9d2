// The search of the site. The text of all pages is in search_data.js, which is fetched when it is first needed.
(function () {
  "use strict";
  const root = document.documentElement.dataset.content_root || "./";
  const common = new Set(("a after an and are as at be by can do does for from how i if in is it my of on or that the this to " +
    "use using what when where which why will with").split(" "));
  // Guides answer before what tells how things work inside.
  const weights = {
    "Start": 1.25, "The loop": 1.25, "Text and models": 1.25, "Several processes": 1.25, "Tools": 1.25, "中文": 1.25,
    "How it works": 0.7, "Benchmarks": 0.6, "Project": 0.3,
  };
  let data = null, waiting = null;

  function load() {
    waiting = waiting || new Promise(function (done) {
      const script = document.createElement("script");
      script.src = root + "_static/search_data.js";
      script.onload = function () { data = prepared(window.siteSearchData); done(); };
      document.head.append(script);
    });
    return waiting;
  }

  function prepared(raw) {
    return raw.entries.map(function (entry) {
      const page = raw.pages[entry[0]];
      return {
        number: entry[0], url: page[0] + (entry[1] ? "#" + entry[1] : ""), page: page[1], group: page[2], heading: entry[2], text: entry[3],
        lowHeading: entry[2].toLowerCase(), asked: entry[4] || "", lowPage: page[1].toLowerCase(), lowText: entry[3].toLowerCase(),
      };
    });
  }

  // Words of a question. Endings go, so that "installing" finds "install". Chinese has no blanks: two signs are a word.
  function wordsOf(query) {
    const words = [];
    for (const part of query.toLowerCase().match(/[\p{Script=Han}]+|[^\s\p{Script=Han}]+/gu) || []) {
      if (/\p{Script=Han}/u.test(part)) {
        for (let i = 0; i + 1 < part.length; i++) words.push(part.slice(i, i + 2));
        if (part.length === 1) words.push(part);
      } else {
        // "accelerator.gather_for_metrics()" holds two names; "2.5" and "config.json" are one word.
        for (const name of /_/.test(part) ? part.split(/\.|::|->/) : [part]) {
          const bare = name.replace(/^[^\w-]+|[^\w+]+$/g, "");
          if (bare) words.push(bare);
        }
      }
    }
    const telling = words.filter(function (word) { return !common.has(word); });
    return (telling.length ? telling : words).map(function (word) {
      return word.length > 5 && /^[a-z]+$/.test(word) ? word.replace(/(ing|es|ed|e|s)$/, "") : word;
    });
  }

  function startsWord(text, word) {
    for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
      if (at === 0 || !/[a-z0-9]/.test(text[at - 1])) return true;
    }
    return false;
  }

  // How well a text holds a word: 1 at the start of a word, half inside of one.
  function holds(text, word) {
    return text.includes(word) ? (startsWord(text, word) ? 1 : 0.5) : 0;
  }

  function find(query, most) {
    const words = wordsOf(query), phrase = query.trim().toLowerCase();
    if (!words.length) return [];
    const rarity = words.map(function (word) {
      const hits = data.filter(function (e) { return e.lowText.includes(word) || e.lowHeading.includes(word); }).length;
      return Math.log(1 + data.length / (1 + hits));
    });
    // What the page says elsewhere counts a little: a page on which many sections have a word is about it.
    const sectionsOfPage = words.map(function (word) {
      const counts = {};
      data.forEach(function (e) { if (e.lowText.includes(word)) counts[e.number] = (counts[e.number] || 0) + 1; });
      return counts;
    });
    const found = [];
    for (const entry of data) {
      let score = 0, matched = 0, all = 0, own = 0;
      words.forEach(function (word, i) {
        const heading = Math.max(holds(entry.lowHeading, word), holds(entry.asked, word)), page = holds(entry.lowPage, word), text = holds(entry.lowText, word);
        const elsewhere = sectionsOfPage[i][entry.number] || 0;
        if (heading || page || text) matched += rarity[i];
        else if (elsewhere) matched += rarity[i] * 0.5;
        own = own || heading || text;
        all += rarity[i];
        const density = text ? Math.min(3, entry.lowText.split(word).length - 1) * 0.25 : 0;
        score += rarity[i] * (6 * heading + 4 * page + text + density + 0.2 * Math.min(4, elsewhere));
      });
      if (!own) continue;
      score *= Math.pow(matched / all, 3);
      // A name of the interface is meant if it looks like one: "save_state", not "resume".
      const exact = entry.lowHeading.split(",").some(function (part) { return part.trim() === phrase; });
      if (exact) score += /_|[A-Z]/.test(query) || entry.group !== "Reference" ? 60 : 5;
      if (words.length > 1 && entry.lowText.includes(phrase)) score += 25;
      if (phrase.startsWith("-") && entry.group === "Reference") score *= 2;
      score *= weights[entry.group] || 1;
      found.push([score, entry]);
    }
    found.sort(function (a, b) { return b[0] - a[0]; });
    return spread(found.map(function (pair) { return pair[1]; })).slice(0, most);
  }

  // Not more than two places of one page before those of other pages.
  function spread(entries) {
    const times = {}, first = [], later = [];
    entries.forEach(function (entry) {
      times[entry.number] = (times[entry.number] || 0) + 1;
      (times[entry.number] > 2 ? later : first).push(entry);
    });
    return first.concat(later);
  }

  // The words around the first hit, with all hits marked.
  function excerpt(entry, words, length) {
    const places = words.map(function (word) { return entry.lowText.indexOf(word); }).filter(function (at) { return at >= 0; });
    let from = Math.max(0, (places.length ? Math.min.apply(null, places) : 0) - 40);
    if (from > 0) from = entry.text.indexOf(" ", from) + 1;
    const piece = entry.text.slice(from, from + length);
    const line = document.createElement("p");
    const pattern = words.map(function (word) { return word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"); }).join("|");
    piece.split(new RegExp("(" + pattern + ")", "i")).forEach(function (part, i) {
      if (i % 2) {
        const mark = document.createElement("mark");
        mark.textContent = part;
        line.append(mark);
      } else {
        line.append(part);
      }
    });
    return line;
  }

  function hitOf(entry, words, length) {
    const link = document.createElement("a");
    link.className = "site-search-hit";
    link.href = root + entry.url;
    const place = document.createElement("span");
    place.className = "site-search-place";
    place.textContent = [entry.group, entry.heading === entry.page ? "" : entry.page].filter(Boolean).join(" › ");
    const heading = document.createElement("strong");
    heading.textContent = entry.heading;
    link.append(place, heading);
    if (entry.text) link.append(excerpt(entry, words, length));
    return link;
  }

  function show(query, box, most, length) {
    const words = wordsOf(query), hits = find(query, most);
    box.replaceChildren.apply(box, hits.map(function (entry) { return hitOf(entry, words, length); }));
    return hits.length;
  }

  function whileTyping(form) {
    const input = form.querySelector("input"), box = document.getElementById("site-search-hits");
    input.addEventListener("focus", load);
    input.addEventListener("input", function () {
      load().then(function () {
        const query = input.value.trim();
        const count = query.length > 1 ? show(query, box, 8, 110) : 0;
        if (query.length > 1 && !count) box.textContent = "Nothing found.";
        box.hidden = query.length < 2;
        place(input, box);
      });
    });
    input.addEventListener("keydown", function (event) {
      if (event.key === "Escape") box.hidden = true;
      if (event.key === "ArrowDown" && !box.hidden && box.firstElementChild) {
        event.preventDefault();
        box.firstElementChild.focus();
      }
    });
    box.addEventListener("keydown", function (event) {
      const step = {ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling"}[event.key];
      if (event.key === "Escape") { box.hidden = true; input.focus(); }
      if (!step || !document.activeElement) return;
      event.preventDefault();
      (document.activeElement[step] || input).focus();
    });
    document.addEventListener("click", function (event) {
      if (!box.contains(event.target) && !form.contains(event.target)) box.hidden = true;
    });
  }

  // Below the field, as wide as the window allows. The list at the left would cut it off.
  function place(input, box) {
    const edge = input.getBoundingClientRect();
    if (box.parentElement !== document.body) document.body.append(box);
    box.style.top = edge.bottom + 4 + "px";
    box.style.left = Math.max(8, Math.min(edge.left, window.innerWidth - 8 - Math.min(560, window.innerWidth - 16))) + "px";
  }

  function resultsPage() {
    const box = document.getElementById("site-search-results");
    if (!box) return;
    const query = new URLSearchParams(window.location.search).get("q") || "";
    document.querySelectorAll(".site-search input").forEach(function (input) { input.value = query; });
    if (!query.trim()) {
      document.getElementById("site-search-count").textContent = "Type a task, a name or an error into the field at the left.";
      return;
    }
    load().then(function () {
      const count = show(query, box, 40, 260);
      document.getElementById("site-search-count").textContent =
        count ? "“" + query + "”: the best " + count + " places" : "Nothing was found for “" + query + "”.";
    });
  }

  document.addEventListener("DOMContentLoaded", function () {
    document.querySelectorAll(".site-search").forEach(whileTyping);
    resultsPage();
    document.addEventListener("keydown", function (event) {
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        document.querySelector(".site-search input").focus();
      }
    });
  });
})();
