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

for (const part of document.querySelectorAll("[data-events]")) follow(part);

function follow(part, lost = "") {
  const source = new EventSource(part.dataset.events);
  const state = document.querySelector(part.dataset.state);
  let silent;
  const heard = () => {
    clearTimeout(silent);
    silent = setTimeout(again, 1000 * part.dataset.silence);
    lost = "";
    if (state.textContent !== "Updates by itself.") state.textContent = "Updates by itself.";
  };
  const lose = (signIn = "") => {
    lost ||= `${new Date().toISOString().slice(11, 19)} UTC`;
    const then = `Not ${signIn ? "signed in" : "connected"} since ${lost}: this is how it was then. `;
    const next = document.createElement(signIn ? "a" : "span");
    next.textContent = signIn ? "Sign in again" : "It tries again by itself.";
    if (signIn) next.href = signIn;
    if (state.textContent !== then + next.textContent) state.replaceChildren(then, next);
  };
  // A browser tries again where nobody answers; where a proxy answers with an error, or nothing comes, it doesn't.
  const again = async () => {
    clearTimeout(silent);
    source.close();
    lose(await whereToSignIn());
    setTimeout(follow, 3000, part, lost);
  };
  source.onmessage = (message) => { part.innerHTML = message.data; heard(); };
  source.addEventListener("still-here", heard);
  source.onerror = () => { if (source.readyState === EventSource.CLOSED) again(); else lose(); };
}

// The address at which to sign in; "" where this page can be read, or nobody answers.
async function whereToSignIn() {
  const signal = AbortSignal.timeout(5000);
  const answer = await fetch(location.href, { method: "HEAD", signal }).catch(() => null);
  return answer && new URL(answer.url).pathname === "/login" ? answer.url : "";
}

// `/` goes to the search of the page, as in other tools.
addEventListener("keydown", (event) => {
  const search = document.querySelector("input[type=search]");
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
  if (event.key !== "/" || event.ctrlKey || event.metaKey || typing || !search) return;
  event.preventDefault();
  search.focus();
});
