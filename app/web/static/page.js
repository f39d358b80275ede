// What was asked for in the background did not arrive: say so where it is read aloud.
document.addEventListener("htmx:sendError", () => {
  const notice = document.getElementById("notice");
  notice.textContent = notice.dataset.offline;
});
