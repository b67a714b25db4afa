// Draws each figure's chart from the data next to it. Colors are CSS variables, so a new theme needs no redrawing.
const draw = async (plot) => {
  const spec = JSON.parse(document.getElementById(plot.dataset.spec).textContent);
  spec.description = plot.closest("figure").querySelector("figcaption").textContent;
  await window.vegaEmbed(plot, spec, {
    actions: false,
    renderer: "svg",
    ast: true,
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
  });
  // A layer without a mark (for example, no interval extends beyond the axis) is an unnamed picture: hide it from screen readers.
  for (const layer of plot.querySelectorAll("g[role=graphics-symbol]:empty")) layer.setAttribute("aria-hidden", "true");
  plot.dataset.drawn = "yes";
};
await Promise.all([...document.querySelectorAll(".plot")].map(draw));
document.documentElement.dataset.charts = "drawn";
