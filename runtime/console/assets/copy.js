// Buttons that copy a text. Browsers have a clipboard only for localhost and HTTPS.
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Copy the text below by hand";
    }
    setTimeout(() => { button.textContent = label; }, 2000);
  });
}
