import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { type DocumentFile } from './documents.js';
import { apiDocument } from './document.js';

/** Files of Swagger UI. */
const ASSETS = ['swagger-ui.css', 'swagger-ui-bundle.js', 'favicon-16x16.png', 'favicon-32x32.png'];

const pageAt = (folder: string): string => `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Plant store API</title>
<link rel="stylesheet" href="${folder}swagger-ui.css">
<link rel="icon" type="image/png" href="${folder}favicon-32x32.png" sizes="32x32">
<link rel="icon" type="image/png" href="${folder}favicon-16x16.png" sizes="16x16">
<style>body { margin: 0 }</style>
</head>
<body>
<div id="swagger-ui"></div>
<script src="${folder}swagger-ui-bundle.js"></script>
<script src="${folder}swagger-ui-init.js"></script>
</body>
</html>
`;

// No validator, which would send the document's address to a server elsewhere. A token that is typed in is gone with the
// page: a browser's storage would keep it on the disk. The address is relative to this script, whatever is before it.
const INIT = `const url = new URL('../openapi.json', document.currentScript.src).href;
window.ui = SwaggerUIBundle({
  url,
  dom_id: '#swagger-ui',
  deepLinking: true,
  tryItOutEnabled: true,
  persistAuthorization: false,
  validatorUrl: null,
});
`;

const text = (path: string, body: string): DocumentFile => ({ path, body: Buffer.from(body) });

const asset = async (name: string): Promise<DocumentFile> => ({
  path: `/docs/${name}`,
  body: await readFile(fileURLToPath(import.meta.resolve(`swagger-ui-dist/${name}`))),
});

/** The API's document, the page that shows it, and the files of that page. */
export const documentFiles = async (version: string): Promise<DocumentFile[]> => [
  text('/openapi.json', JSON.stringify(apiDocument(version))),
  text('/docs', pageAt('./docs/')),
  text('/docs/', pageAt('./')),
  text('/docs/swagger-ui-init.js', INIT),
  ...(await Promise.all(ASSETS.map(asset))),
];
