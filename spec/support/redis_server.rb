# frozen_string_literal: true

require "fileutils"
require "redis-client"
require "socket"
require_relative "supervisor"
require_relative "certificates"
require_relative "port"

module Support
  # A real redis-server for the suite, on a free loopback port and a Unix socket.
  #
  #   RedisServer.shared                      # a plain server, started once; never stop or FLUSH it
  #   server = RedisServer.start(:password)   # in examples: redis_server(:password)
  #   server.client.call("GET", key)          # a RedisClient over the Unix socket
  #
  # Kinds:
  # - plain
  # - password: PASSWORD
  # - acl: ACL_USER may do everything on plock* keys, READER may only read; both have ACL_PASSWORD
  # - tls: with the options cert: (a Certificates::Pair) and client_auth: true
  # - replica: read-only, of a missing master
  # - cluster: serves no slot
  # - moved: a cluster node that sends every key elsewhere
  # - sentinel: watches a missing master, or the one that monitor: names (words as in a sentinel's
  #   file). With cert:, the sentinel speaks TLS, also with its servers.
  # - full: its memory has run out
  class RedisServer
    PROGRAM = "redis-server"
    PASSWORD = "pass:w/rd@%"
    ACL_USER = "alice"
    READER = "reader"
    ACL_PASSWORD = "wonder land"
    START_DEADLINE = 20.0
    READY = /\A(\+PONG|-NOAUTH|-LOADING|-MASTERDOWN)/
    NOWHERE = %w[127.0.0.1 1].freeze # an address where no master answers
    MOVED_TO = "127.0.0.1:7999"

    class << self
      def installed? =
        ENV["PATH"].split(File::PATH_SEPARATOR).any? { |d| File.executable?(File.join(d, PROGRAM)) }

      def shared = @shared ||= start(:plain)

      def start(kind = :plain, **options) = new(kind, **options).start

      # @return [Gem::Version] the version that the program names (Valkey names its own version)
      def version = @version ||= Gem::Version.new(`#{PROGRAM} --version`[/v=(\S+)/, 1])
    end

    attr_reader :port, :pid, :unix_path, :kind

    # config: further settings, such as { "maxmemory" => "1mb" }. The elements of an Array become
    # separate words.
    def initialize(kind = :plain, cert: nil, client_auth: false, config: {}, monitor: nil)
      @kind = kind
      @cert = cert
      @client_auth = client_auth
      @config = config
      @monitor = monitor || ["none", *NOWHERE, "1"]
      @folder = File.join(Supervisor.folder, self.class.__send__(:next_name))
      @unix_path = "#{@folder}.sock"
      Dir.mkdir(@folder)
    end

    def start
      Port.claim do |port, hold|
        prepare(port)
        next unless launch(port)

        @hold = hold&.dup # keeps the port for a restart
        true
      end
      self
    end

    def url(query = nil, user: nil, password: nil, db: nil, host: "127.0.0.1")
      scheme = kind == :tls ? "rediss" : "redis"
      place = "#{host}:#{port}#{"/#{db}" if db}"
      "#{scheme}://#{credentials(user, password)}#{place}#{"?#{query}" if query}"
    end

    def unix_url(query = nil, user: nil, password: nil)
      "unix://#{credentials(user, password)}#{unix_path}#{"?#{query}" if query}"
    end

    # A connection with all permissions, with which examples inspect and change the server. It
    # connects again after a restart.
    def client
      @client ||=
        RedisClient.config(
          path: unix_path, password: (PASSWORD if kind == :password), timeout: 5,
          reconnect_attempts: 1
        ).new_client
    end

    def call(...) = client.call(...)

    # A connection over TLS, for servers of the kind tls without client_auth:. From Redis 7.2 on, a
    # cluster node reports its TLS ports only over such connections.
    def secure_client
      @secure_client ||=
        RedisClient.config(
          host: "127.0.0.1", port: port, timeout: 5, ssl: true, reconnect_attempts: 1,
          ssl_params: { ca_file: Certificates.ca.cert_file }
        ).new_client
    end

    # The number of clients that are connected, without #client.
    def connections
      call("CLIENT", "LIST", "TYPE", "normal").lines.size - 1
    end

    # Stops the process with SIGSTOP. The kernel still accepts connections, but no request is
    # answered.
    def stop_process
      Process.kill(:STOP, pid)
      Process.wait(pid, Process::WUNTRACED)
    end

    def continue_process = Process.kill(:CONT, pid)

    # Kills the server without warning its clients, as a crash does. The server keeps its port.
    def kill = finish(:KILL)

    def stop
      disconnect
      finish(:KILL) # its data need not be saved
      @hold&.close
    end

    # Restarts the server on the same port. If it still runs, ends it first. With `save: true`, the
    # server saves its data before it ends.
    def restart(save: false, config: {})
      call("SAVE") if save
      disconnect
      kill
      @config = @config.merge(config)
      launch(port) or raise "port #{port} was taken meanwhile"
      self
    end

    def log = File.read("#{@folder}/log")

    private

    # Several threads may start the servers of a cluster at the same time.
    NAMING = Mutex.new
    private_constant :NAMING

    def self.next_name = NAMING.synchronize { "#{Process.pid}-#{@number = @number.to_i + 1}" }
    private_class_method :next_name

    def credentials(user, password)
      "#{user}#{":#{percent_encode(password)}" if password}@" if user || password
    end

    def percent_encode(text) =
      text.gsub(/[^A-Za-z0-9]/) { |c| c.bytes.map { |b| format("%%%02X", b) }.join }

    # @return [true, nil] true when the server answers, nil if another program took the port
    def launch(port)
      @port = port
      @pid =
        Process.spawn(
          PROGRAM, *arguments, out: File::NULL, err: File::NULL, in: File::NULL, pgroup: true
        )
      Supervisor.watch(@pid)
      deadline = now + START_DEADLINE
      until answers?
        return died(port) if Process.wait(@pid, Process::WNOHANG)
        raise "redis-server did not answer within #{START_DEADLINE} s:\n#{log}" if now > deadline

        sleep 0.002
      end
      true
    end

    def died(port)
      Supervisor.forget(@pid)
      @pid = nil
      raise "redis-server did not start:\n#{log}" unless log.match?(/Address already in use/)

      warn "port #{port} was taken meanwhile" if $DEBUG
    end

    def answers?
      UNIXSocket.open(unix_path) do |socket|
        socket.write("PING\r\n")
        socket.wait_readable(1) && socket.readpartial(256).match?(READY)
        # Even after the first answer, the server needs 0.1 s to apply its nodes file.
      end && (kind != :moved || call("CLUSTER", "INFO").include?("cluster_state:ok"))
    rescue SystemCallError, EOFError
      false
    end

    def disconnect = [@client, @secure_client].compact.each(&:close)

    def finish(signal)
      return unless pid

      Process.kill(signal, pid)
      Process.wait(pid)
      Supervisor.forget(pid)
      @pid = nil
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def arguments
      return sentinel_arguments if kind == :sentinel

      settings = common.merge(kind_settings, @config)
      settings.flat_map { |name, values| ["--#{name.to_s.sub(/#\d+\z/, "")}", *values] }
    end

    def common
      {
        "port" => port.to_s, "bind" => "127.0.0.1", "unixsocket" => unix_path,
        "unixsocketperm" => "700", "dir" => @folder, "logfile" => "#{@folder}/log", "save" => "",
        "appendonly" => "no", "daemonize" => "no", **debug_settings
      }
    end

    # Before Redis 7, DEBUG needs no setting, and this setting does not exist.
    def debug_settings
      self.class.version >= Gem::Version.new("7") ? { "enable-debug-command" => "yes" } : {}
    end

    # A Sentinel needs a file that it can write to, and accepts only a few settings.
    def sentinel_arguments
      file = "#{@folder}/sentinel.conf"
      settings = common.slice("port", "bind", "unixsocket", "unixsocketperm", "dir", "logfile")
      settings.update(tls_settings, "tls-replication" => "yes") if @cert
      lines = settings.map { |name, value| "#{name} #{value}" }
      lines << "sentinel monitor #{@monitor.join(" ")}"
      lines.concat(@config.map { |name, value| "#{name} #{value}" })
      File.write(file, [*lines, ""].join("\n")) unless File.exist?(file)
      [file, "--sentinel"]
    end

    # A setting that occurs twice gets numbered names, such as "user#1".
    def kind_settings
      case kind
      when :plain    then {}
      when :password then { "requirepass" => PASSWORD }
      when :acl      then acl_settings
      when :tls      then tls_settings
      when :replica  then { "replicaof" => NOWHERE }
      when :cluster, :moved then { "cluster-enabled" => "yes", "cluster-node-timeout" => "3600000" }
      when :full     then { "maxmemory" => "1", "maxmemory-policy" => "noeviction" }
      else raise ArgumentError, "no kind of server called #{kind}"
      end
    end

    def acl_settings
      file = "#{@folder}/users.acl"
      hash = OpenSSL::Digest::SHA256.hexdigest(ACL_PASSWORD)
      File.write(file, <<~ACL)
        user default on nopass ~* &* +@all
        user #{ACL_USER} on ##{hash} ~plock* ~parse-stack* &plock* +@all
        user #{READER} on ##{hash} ~* &* +@read +@connection
      ACL
      { "aclfile" => file }
    end

    def tls_settings
      pair = @cert || Certificates.server
      {
        "port" => "0", "tls-port" => port.to_s, "tls-cert-file" => pair.cert_file,
        "tls-key-file" => pair.key_file, "tls-ca-cert-file" => Certificates.ca.cert_file,
        "tls-auth-clients" => @client_auth ? "yes" : "no"
      }
    end

    # Writes the nodes file of the kind moved. Its node is a replica of a missing master, because
    # a replica uses its nodes file at once, but a master waits two seconds.
    def prepare(port)
      FileUtils.rm_f("#{@folder}/sentinel.conf") # an old file would name another port
      return unless kind == :moved

      mine, theirs = "a" * 40, "b" * 40
      File.write("#{@folder}/nodes.conf", <<~NODES)
        #{mine} 127.0.0.1:#{port}@#{port + 10_000} myself,slave #{theirs} 0 0 1 connected
        #{theirs} #{MOVED_TO}@17999 master - 0 0 1 connected 0-16383
        vars currentEpoch 1 lastVoteEpoch 0
      NODES
    end
  end
end
