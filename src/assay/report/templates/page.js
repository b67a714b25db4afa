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
  plot.dataset.drawn = "yes";
};
await Promise.all([...document.querySelectorAll(".plot")].map(draw));
document.documentElement.dataset.charts = "drawn";
