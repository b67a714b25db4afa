// Draws each figure's chart from the data beside it. Colours are CSS variables, so the theme needs no redrawing.
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
  // A layer without a mark (no interval goes on beyond the axis, say) is a picture without a name: not to be read.
  for (const layer of plot.querySelectorAll("g[role=graphics-symbol]:empty")) layer.setAttribute("aria-hidden", "true");
  plot.dataset.drawn = "yes";
};
await Promise.all([...document.querySelectorAll(".plot")].map(draw));
document.documentElement.dataset.charts = "drawn";
