ARG V=1
FROM a AS b
ENV TP=4 DP=4
ENV OLD form
# comment
ENTRYPOINT ["python3", "-m", \
  "sglang.launch_server"]
CMD ["--tp", "4"]
