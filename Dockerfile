# The controller, for amd64 and arm64: the bundle is plain JavaScript, so nothing is built here. Run `npm run build` first.
FROM gcr.io/distroless/nodejs24-debian12:nonroot
WORKDIR /opt/metalbridge
COPY package.json LICENSE ./
COPY cli/metalbridge.mjs cli/
COPY catalog/ catalog/
COPY dist/ dist/
USER 65532:65532
EXPOSE 9464
ENTRYPOINT ["/nodejs/bin/node", "/opt/metalbridge/cli/metalbridge.mjs"]
CMD ["controller", "--health-address=0.0.0.0"]
