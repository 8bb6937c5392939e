# glibc (bookworm), since native packages are prebuilt for it; a version of Node that has its own SQLite.
FROM node:22.22.2-bookworm-slim AS base
WORKDIR /app
COPY package.json package-lock.json ./

# No install script runs: the npm of this Node knows no allowScripts, and what is needed is prebuilt.
FROM base AS build
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY .swcrc ./
COPY src ./src
COPY console ./console
RUN npm run build

FROM base AS production
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund

FROM node:22.22.2-bookworm-slim
ARG VERSION=1.0.0
LABEL org.opencontainers.image.title="plants" \
      org.opencontainers.image.description="An event-sourced plant store" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.licenses="MIT"

# A new volume at /data takes over this owner.
RUN install -d -o node -g node -m 0700 /data

WORKDIR /app
COPY package.json LICENSE CHANGELOG.md ./
COPY bin ./bin
COPY deploy/eventstoredb-account.js ./deploy/
COPY --from=production /app/node_modules ./node_modules
COPY --from=build /app/build/console ./build/console
COPY --from=build /app/build/src ./build/src

# 0.0.0.0 is every interface of the container, not of the host: nothing is reachable until a port is published.
ENV NODE_ENV=production \
    HOST=0.0.0.0 \
    PORT=3000 \
    DATA_DIR=/data

# Nothing under /app belongs to this user, and only /data is written to.
USER node
VOLUME /data
EXPOSE 3000
STOPSIGNAL SIGTERM

# The slim image has no curl. A process that does not answer is unhealthy; readiness is a question for the proxy.
HEALTHCHECK --interval=5s --timeout=4s --start-period=30s --retries=3 \
    CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/health/live`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]

ENTRYPOINT ["node", "bin/plants.js"]
CMD ["serve"]
