// node seen.js SITE [FOLDER]: what a reader would not see on pages of the built site, a line each, by axe-core (contrast,
// headings, labels, landmarks), by widths and by keys, in a headless Chromium; and pictures of the pages in FOLDER.
const { spawn, spawnSync } = require("child_process");
const fs = require("fs");
const os = require("os");
const path = require("path");
const { pathToFileURL } = require("url");

const BROWSERS = ["chromium", "chromium-browser", "google-chrome"];
const PAGES = ["index", "read/pillutla", "read/martins", "read/branson", "read/zhang", "read/cocoa", "LEDGER",
  "step/p-algorithm-1", "learn/tag", "choose", "api/class-Chain", "api/diptych-tag-train", "results", "benchmarks/index"];
const WIDTHS = [1280, 390];
const TALLEST = 4000; // pixels of a picture
// entries of a paper are all alike: axe takes minutes for a hundred
const FEW = "[...document.querySelectorAll('section:has(> .statement)')].slice(4).forEach((each) => each.remove())";
const OVER = "document.documentElement.scrollWidth - innerWidth";
const STILL = "document.head.insertAdjacentHTML('beforeend', '<style>* { transition: none !important }</style>')";
const MOVED = { // by the key Right, from the first of these
  ".sd-tab-set > input": "(({ checked, nextElementSibling: label }) => checked && label.nextElementSibling.offsetHeight > 0)"
    + "(document.querySelectorAll('.sd-tab-set > input')[1])",
  ".frames input": "document.querySelectorAll('.frames figure')[1].offsetHeight > 0",
};

const focused = (first) => `(() => { const found = document.querySelector("${first}"); found?.click(); found?.focus();
  return found && found.tabIndex === 0 && found === document.activeElement; })()`;

/** Chromium's commands, by its pipe. */
function connect(program, home) {
  const words = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"];
  const stdio = ["ignore", "ignore", "ignore", "pipe", "pipe"];
  const browser = spawn(program, [...words, `--user-data-dir=${home}`], { stdio });
  const waiting = new Map();
  const end = () => { for (const [, failed] of waiting.values()) failed(new Error("Chromium has ended")); };
  browser.on("exit", end);
  let number = 0, rest = "";
  browser.stdio[4].setEncoding("utf8").on("data", (piece) => {
    const messages = (rest + piece).split("\0");
    rest = messages.pop();
    for (const { id, method, result, error } of messages.map((each) => JSON.parse(each))) {
      if (method === "Inspector.targetCrashed") end();
      const [done, failed] = waiting.get(id ?? method) ?? [() => {}, () => {}];
      waiting.delete(id ?? method);
      if (error) failed(new Error(error.message)); else done(result);
    }
  });
  const answer = (key) => new Promise((...both) => { waiting.set(key, both); });
  const send = (method, params, sessionId) => {
    const answered = answer(++number);
    browser.stdio[3].write(JSON.stringify({ id: number, method, params, sessionId }) + "\0");
    return answered;
  };
  return { send, event: answer, end: () => new Promise((done) => { browser.once("exit", done).kill(); }) };
}

/** A tab of the browser. */
async function open(browser) {
  const { targetId } = await browser.send("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await browser.send("Target.attachToTarget", { targetId, flatten: true });
  const send = (method, params = {}) => browser.send(method, params, sessionId);
  await send("Page.enable");
  return {
    send,
    async load(file) {
      const loaded = browser.event("Page.loadEventFired");
      const { errorText } = await send("Page.navigate", { url: pathToFileURL(file).href });
      if (errorText) throw new Error(`${file}: ${errorText}`);
      await loaded;
    },
    async show(width, scheme) {
      await send("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: false });
      await send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
    },
    async evaluate(expression) {
      const { result, exceptionDetails: wrong } =
        await send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
      if (wrong) throw new Error(wrong.exception?.description ?? wrong.text);
      return result.value;
    },
    async right() {
      const key = { key: "ArrowRight", code: "ArrowRight", windowsVirtualKeyCode: 39 };
      for (const type of ["keyDown", "keyUp"]) await send("Input.dispatchKeyEvent", { type, ...key });
    },
    async picture(file, width) {
      const height = Math.min(await this.evaluate("document.documentElement.scrollHeight"), TALLEST);
      const clip = { x: 0, y: 0, width, height, scale: 1 };
      const { data } = await send("Page.captureScreenshot", { captureBeyondViewport: true, clip });
      fs.writeFileSync(file, Buffer.from(data, "base64"));
    },
  };
}

/** What axe finds on a page that is shown, a line each. */
async function* violations(tab) {
  const found = await tab.evaluate("axe.run().then(({ violations }) => violations.map(({ id, help, nodes }) => "
    + "[id, help, nodes.length, nodes[0].target.join(' '), nodes[0].failureSummary]))");
  for (const [id, help, count, target, summary] of found) {
    yield `${id}, ${count} times: ${help}: ${target}: ${summary.replace(/\s+/g, " ")}`;
  }
}

async function main(site, folder) {
  const program = BROWSERS.find((name) => spawnSync(name, ["--version"]).status === 0);
  if (!program) return console.error(`contrast, headings, widths and keys not checked: none of ${BROWSERS.join(", ")} here`);
  const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
  const home = fs.mkdtempSync(path.join(os.tmpdir(), "seen-"));
  const browser = connect(program, home), missed = new Set(Object.keys(MOVED));
  try {
    const tab = await open(browser);
    for (const page of PAGES) {
      await tab.load(path.resolve(site, `${page}.html`));
      await tab.evaluate(STILL);
      const layouts = WIDTHS.flatMap((width) => [[width, "light"], [width, "dark"]]);
      for (const [width, scheme] of layouts) {
        await tab.show(width, scheme);
        const over = await tab.evaluate(OVER);
        if (over > 0 && scheme === "light") report(`${page}.html, ${width} pixels: ${over} pixels wider than the window`);
        if (folder) await tab.picture(path.join(folder, `${page.replace("/", "-")}-${width}-${scheme}.png`), width);
      }
      for (const [first, moved] of Object.entries(MOVED)) {
        const reached = await tab.evaluate(focused(first));
        if (reached) missed.delete(first), await tab.right();
        if (reached === false || (reached && !await tab.evaluate(moved))) report(`${page}.html: ${first}: not moved by keys`);
      }
      await tab.evaluate(`${FEW}; ${axe}`);
      for (const [width, scheme] of layouts) {
        await tab.show(width, scheme);
        for await (const line of violations(tab)) report(`${page}.html, ${width} pixels, ${scheme}: ${line}`);
      }
    }
    for (const first of missed) report(`${first}: on none of the pages`);
  } finally {
    await browser.end();
    fs.rmSync(home, { recursive: true, force: true, maxRetries: 5 });
  }
}

function report(line) {
  console.log(line);
  process.exitCode = 1;
}

main(...process.argv.slice(2));
