/** The console's pages: one line each. A page's code is loaded when it is opened first. */
import { type ComponentType } from 'preact';
import { type Scope } from './session.js';

export interface Page {
  /** Its path below /console. */
  readonly path: string;
  /** For its link and its heading. */
  readonly title: string;
  /** Shown to tokens with this scope; to all, and without a token too, where there is none. */
  readonly scope?: Scope;
  readonly load: () => Promise<{ readonly default: ComponentType }>;
}

/** In the order of the navigation. The first one that a token may see is where it begins. */
export const PAGES: readonly Page[] = [
  {
    path: 'plants',
    title: 'Plants',
    scope: 'plants:read',
    load: () => import('./pages/owner/plants-page.js'),
  },
  {
    path: 'operations',
    title: 'Operations',
    scope: 'plants:operate',
    load: () => import('./pages/operator/operations-page.js'),
  },
  {
    path: 'log',
    title: 'Log',
    scope: 'plants:audit',
    load: () => import('./pages/auditor/log-page.js'),
  },
  {
    path: 'checkpoints',
    title: 'Checkpoints',
    load: () => import('./pages/auditor/checkpoints-page.js'),
  },
  {
    path: 'check',
    title: 'Check a file',
    load: () => import('./pages/auditor/check-page.js'),
  },
];
