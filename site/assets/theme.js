// The theme that the reader chose, before anything is painted.
"use strict";
try {
  document.documentElement.dataset.theme = localStorage.getItem("plock-theme") || "system";
} catch {
  document.documentElement.dataset.theme = "system";
}
