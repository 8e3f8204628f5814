// What screen readers miss in the theme: names of the search button and of pictures' links, and where the list of pages is.
document.addEventListener("DOMContentLoaded", () => {
  const named = document.querySelectorAll(".search-button-field, .sphx-glr-thumbcontainer a.reference.internal");
  for (const node of named) node.setAttribute("aria-label", node.textContent.replace(/\s+/g, " ").trim());
  document.querySelector("main[role]")?.removeAttribute("role"); // main has that role by itself
  const pages = document.querySelector(".sidebar-primary-items__start");
  pages?.setAttribute("role", "navigation");
  pages?.setAttribute("aria-label", "Pages");
});
