// The order of search results: exact names, guides, the reference pages, the API's modules. It replaces the
// whole Scorer of Sphinx's searchtools.js, whose other values are unchanged.
var searched = new URLSearchParams(window.location.search).get("q")?.trim() || "/";
var Scorer = {
  score: ([docname, title, , , score]) =>
    score +
    (title.endsWith(searched) ? 20 : 0) +
    (docname.startsWith("guides/") ? 12 : docname.startsWith("generated/api-") ? 0 : 6),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
