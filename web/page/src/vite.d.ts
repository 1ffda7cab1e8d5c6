/// <reference types="vite/client" />

/** The length of the model's file, from the build. */
declare const MODEL_BYTES: number;
