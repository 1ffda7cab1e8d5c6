// The one module between the page and the package `multihead`, which runs in a worker so that the page never freezes.

import type { DeviceLost, Progress } from "multihead";
import type { CallName, Calls, Fault, Message } from "./protocol";
import EngineWorker from "./worker?worker";

/** Something went wrong in the worker; `code` is that of the package's errors. */
export class EngineError extends Error {
  readonly code: string;

  constructor(fault: Fault) {
    super(fault.message);
    this.name = "EngineError";
    this.code = fault.code;
  }
}

interface Pending {
  resolve: (value: never) => void;
  reject: (error: EngineError) => void;
  onProgress: ((progress: Progress) => void) | undefined;
}

/** The worker's end of the line. Calls are worked off in the order in which they are made. */
export class Engine {
  /** Called when the device goes away. */
  onLost: (lost: DeviceLost) => void = () => {};
  readonly #worker = new EngineWorker();
  readonly #pending = new Map<number, Pending>();
  #nextId = 0;

  constructor() {
    this.#worker.onmessage = (event: MessageEvent<Message>) => this.#receive(event.data);
    this.#worker.onerror = (event) => this.#fail(event.message || "its script could not be loaded");
    this.#worker.onmessageerror = () => this.#fail("a message from the worker could not be read");
  }

  /** Asks the worker. */
  call<Name extends CallName>(
    name: Name,
    args: Parameters<Calls[Name]>,
    onProgress?: (progress: Progress) => void,
  ): Promise<ReturnType<Calls[Name]>> {
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject, onProgress });
      this.#worker.postMessage({ id, name, args });
    });
  }

  #receive(message: Message): void {
    if (message.kind === "lost") {
      this.onLost(message.lost);
      return;
    }
    const pending = this.#pending.get(message.id);
    if (message.kind === "progress") {
      pending?.onProgress?.(message.progress);
      return;
    }
    this.#pending.delete(message.id);
    if (message.kind === "fault") pending?.reject(new EngineError(message.fault));
    else pending?.resolve(message.value as never);
  }

  #fail(message: string): void {
    const fault = { code: "internal", message: `the engine stopped: ${message}; load the page again` };
    for (const pending of this.#pending.values()) pending.reject(new EngineError(fault));
    this.#pending.clear();
  }
}
