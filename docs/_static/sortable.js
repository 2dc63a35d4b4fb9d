// Tables of results: a click on a heading, or Enter on it, sorts the rows by that column.
document.addEventListener("DOMContentLoaded", () => {
  const MIN_ROWS = 4;
  const toNumber = (text) => {
    const found = text.replace(/−/g, "-").replace(/(\d) (?=\d{3})/g, "$1").match(/[-+]?\d+(\.\d+)?(e[-+]?\d+)?/i);
    return found ? parseFloat(found[0]) : NaN;
  };
  const sort = (table, column, heading) => {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const cell = (row) => (row.cells[column] ? row.cells[column].textContent.trim() : "");
    const filled = rows.map(cell).filter((text) => text !== "");
    const numeric = filled.length > 0 && filled.every((text) => /^[<~]?[-+−]?\d/.test(text));
    const up = heading.getAttribute("aria-sort") === "descending" || (!numeric && heading.getAttribute("aria-sort") !== "ascending");
    rows.sort((a, b) => {
      const [x, y] = [cell(a), cell(b)];
      if (x === "" || y === "") return (x === "") - (y === ""); // empty cells last
      const order = numeric ? toNumber(x) - toNumber(y) : x.localeCompare(y);
      return up ? order : -order;
    });
    body.append(...rows);
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  };
  for (const table of document.querySelectorAll("article table")) {
    const body = table.tBodies[0];
    const measured = body && [...body.querySelectorAll("td")].filter((c) => /\d\.\d/.test(c.textContent)).length;
    const grouped = body && [...body.rows].some((row) => row.cells[0] && row.cells[0].textContent.trim() === "");
    if (!table.tHead || !body || grouped || body.rows.length < MIN_ROWS || measured < MIN_ROWS) continue;
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      if (!heading.textContent.trim()) return;
      heading.classList.add("sortable");
      heading.tabIndex = 0;
      heading.title = "Sort by this column";
      heading.addEventListener("click", () => sort(table, column, heading));
      heading.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        sort(table, column, heading);
      });
    });
  }
});
