// What a page can do beyond being read: copy a command, load a slow part after the rest, follow what runs.
for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
    button.textContent = "Copied";
  });
}

for (const part of document.querySelectorAll("[data-part]")) {
  const answer = await fetch(part.dataset.part);
  part.innerHTML = await answer.text();
  part.setAttribute("aria-busy", "false");
}

for (const part of document.querySelectorAll("[data-events]")) {
  const source = new EventSource(part.dataset.events);
  const state = document.querySelector(part.dataset.state);
  source.onopen = () => { state.textContent = "Updates by itself."; };
  source.onerror = () => { state.textContent = "Not connected; it tries again by itself."; };
  source.onmessage = (message) => { part.innerHTML = message.data; };
}

// `/` goes to the search of the page, as in other tools.
addEventListener("keydown", (event) => {
  const search = document.querySelector("input[type=search]");
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
  if (event.key !== "/" || event.ctrlKey || event.metaKey || typing || !search) return;
  event.preventDefault();
  search.focus();
});
