// The explorer in a notebook: a widget of anywidget. The component is in a shadow root, so that the styles of the page and of the
// component do not meet. `step` is shared with Python, in both directions.
export default {
  render({ model, el }) {
    const host = document.createElement("div");
    host.tabIndex = 0;
    host.setAttribute("role", "group");
    host.setAttribute("aria-label", "Explorer");
    // JupyterLab has its own shortcuts for the keys of the explorer.
    el.dataset.lmSuppressShortcuts = "true";
    const root = host.attachShadow({ mode: "open" });
    root.innerHTML = COMPONENT;
    const style = document.createElement("style");
    style.textContent = STYLE;
    root.prepend(style);
    el.append(host);
    const moved = (step) => {
      if (step === model.get("step")) return;
      model.set("step", step);
      model.save_changes();
    };
    const player = explorer(root, JSON.parse(model.get("recording")), { step: model.get("step"), moved });
    const follow = () => { if (player.step !== model.get("step")) player.to(model.get("step")); };
    model.on("change:step", follow);
    return () => { model.off("change:step", follow); player.stop(); };
  },
};
