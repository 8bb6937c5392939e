import { createReadStream, readFileSync, statSync } from 'node:fs';
import { PassThrough, Readable, type Transform } from 'node:stream';
import { pipeline } from 'node:stream';
import * as zlib from 'node:zlib';
import { BundleRefused } from '../audit/bundle.js';
import { checkBundle, type Checked, type Contents, type ReadBytes } from '../audit/check.js';
import { parseVerifierKey, NoteRefused } from '../audit/signed-note.js';
import { Progress } from '../progress.js';
import { print, printable } from './desk.js';
