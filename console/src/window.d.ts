// Vite's event for a part of the build that could not be loaded; Svelte knows only the platform's own events.
import "svelte/elements";

declare module "svelte/elements" {
  interface SvelteWindowAttributes {
    "onvite:preloadError"?: (event: Event) => void;
  }
}
