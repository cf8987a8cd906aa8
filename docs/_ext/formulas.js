// Each line of the input is [formula, display]; each line of the output is {html} or {error}.
const katex = require(process.argv[2]);
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const [formula, displayMode] = JSON.parse(line);
  let answer;
  try {
    answer = { html: katex.renderToString(formula, { displayMode, throwOnError: true, strict: "error" }) };
  } catch (problem) {
    answer = { error: problem.message };
  }
  console.log(JSON.stringify(answer));
});
