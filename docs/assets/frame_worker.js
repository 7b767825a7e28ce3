// The site's search from a folder, without a server: no browser starts a worker from a file, so a hidden frame runs its
// script. With a server this does nothing.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      this.ready = new Promise((begin) => {
        window.addEventListener("message", (event) => {
          if (event.source !== this.inside) return;
          if (event.data === "frame begins") return begin();
          this.dispatchEvent(new MessageEvent("message", { data: event.data }));
        });
      });
      const inside = frame.contentDocument;
      inside.open();
      inside.write(
        "<script>postMessage = (data) => parent.dispatchEvent(new MessageEvent('message', { data, source: window }));" +
          "importScripts = () => {};</script>" +
          `<script src="${url}" onload="postMessage('frame begins')"></script>`,
      );
      inside.close();
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {}
  };
}
