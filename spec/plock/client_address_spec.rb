# frozen_string_literal: true

require "connection_pool"
require "moneta"
require "redis"
require "redis-client"
require "redis_client/decorator"

RSpec.describe Plock::ClientAddress do
  def taken(client)
    address = described_class.of(client)
    address && [address.url, address.options]
  end

  describe "the redis gem" do
    it "gives host, port, credentials and database" do
      redis = Redis.new(url: "redis://alice:s%3Acret@db1.example:6380/2")
      expect(taken(redis)).to eq(
        ["redis://db1.example:6380", { username: "alice", password: "s:cret", database: 2 }]
      )
    end

    it "prefers its options to its URL" do
      redis = Redis.new(url: "redis://db1.example:6380/2", db: 5, password: "other")
      expect(taken(redis)).to eq(["redis://db1.example:6380", { password: "other", database: 5 }])
    end

    it "gives the defaults of the client if nothing is set" do
      expect(taken(Redis.new(host: "db1.example"))).to eq(["redis://db1.example:6379", {}])
    end

    it "gives a Unix socket, and escapes characters that a URL cannot hold" do
      redis = Redis.new(path: "/run/our redis/100%?.sock", db: 1)
      expect(taken(redis)).to eq(["unix:///run/our%20redis/100%25%3F.sock", { database: 1 }])
    end

    it "puts an IPv6 address into brackets" do
      expect(taken(Redis.new(host: "::1", port: 7000))).to eq(["redis://[::1]:7000", {}])
    end

    it "gives TLS and its parameters" do
      redis =
        Redis.new(
          url: "rediss://db1.example:6390",
          ssl_params: {
            ca_file: "/etc/ca.pem", cert: "/etc/us.crt", key: "/etc/us.key"
          }
        )
      expect(taken(redis)).to eq(
        [
          "rediss://db1.example:6390",
          { ca_file: "/etc/ca.pem", cert: "/etc/us.crt", key: "/etc/us.key" }
        ]
      )
    end

    it "gives TLS that was asked for beside the URL" do
      expect(taken(Redis.new(url: "redis://db1.example", ssl: true))).to eq(
        ["rediss://db1.example:6379", {}]
      )
    end

    it "is not connected for it" do
      redis = Redis.new(path: shared_redis.unix_path)
      described_class.of(redis)
      expect(redis).not_to be_connected
    end

    it "through sentinels keeps them, the name, and the credentials of both" do
      redis = Redis.new(
        sentinels: [{ host: "a.example", port: 1 }, { host: "::1", port: 2 }], name: "my+main",
        sentinel_username: "bob", sentinel_password: "b", username: "ali", password: "a", db: 3
      )
      expect(taken(redis)).to eq(
        ["redis+sentinel://a.example:1,[::1]:2/my%2Bmain",
         { username: "ali", password: "a", database: 3, sentinel_username: "bob",
           sentinel_password: "b" }]
      )
    end
  end

  describe "the redis gem before 5, which keeps its options itself" do
    let(:older) do
      Class.new(Redis) do
        def initialize(options) = @options_of_4 = options

        def _client = Struct.new(:options).new(@options_of_4)
      end
    end

    it "gives host, port, credentials and database" do
      redis =
        older.new(
          scheme: "redis", host: "db1.example", port: 6380, path: nil, username: "alice",
          password: "secret", db: 2
        )
      expect(taken(redis)).to eq(
        ["redis://db1.example:6380", { username: "alice", password: "secret", database: 2 }]
      )
    end

    it "gives a Unix socket" do
      expect(taken(older.new(scheme: "unix", path: "/run/r.sock", db: 0))).to eq(
        ["unix:///run/r.sock", {}]
      )
    end

    it "gives TLS" do
      redis =
        older.new(
          scheme: "rediss",
          host: "db1.example",
          port: 6380,
          db: 0,
          ssl: true,
          ssl_params: {
            verify_mode: 0
          }
        )
      expect(taken(redis)).to eq(["rediss://db1.example:6380", { verify: :none }])
    end

    it "through sentinels has the name in the place of the host" do
      redis = older.new(
        host: "main", port: 6379, db: 1, password: "a",
        sentinels: [{ host: "a.example", port: 1, password: "b" }, { "host" => "b.example" }]
      )
      expect(taken(redis)).to eq(
        ["redis+sentinel://a.example:1,b.example:26379/main",
         { password: "a", database: 1, sentinel_password: "b" }]
      )
    end

    it "that reads from replicas is refused, but not one that names the primary's role" do
      through = { host: "main", port: 6379, sentinels: [{ host: "a.example" }] }
      [:slave, "slave", "replica"].each do |role|
        expect { described_class.of(older.new(role: role, **through)) }
          .to raise_error(Plock::UnsupportedError, /replicas/)
      end
      [nil, :master, "master"].each do |role|
        expect(taken(older.new(role: role, **through)))
          .to eq(["redis+sentinel://a.example:26379/main", {}])
      end
    end

    it "through sentinels has the TLS of the servers for them, too" do
      redis = older.new(
        host: "main", port: 6379, ssl: true, ssl_params: { ca_file: "/ca.pem" },
        sentinels: [{ host: "a.example" }]
      )
      expect(taken(redis))
        .to eq(["rediss+sentinel://a.example:26379/main", { ca_file: "/ca.pem" }])
    end
  end

  # A client of redis 3 sends each unknown method to the server, as a command. So plock must refuse
  # the client without calling such a method.
  it "refuses a client of redis 3, and says what to do" do
    old = stub_const("Redis", Class.new)
    old.define_method(:method_missing) { |name, *| raise("the command #{name} was sent") }
    advice = /update the gem, or give plock the server's URL/
    expect { described_class.of(old.new) }.to raise_error(
      Plock::UnsupportedError, /a client of the gem redis before version 4 \(Redis\): #{advice}/
    )
  end

  describe "redis-client" do
    let(:config) { RedisClient.config(url: "redis://db1.example:6380/2", password: "secret") }
    let(:expected) { ["redis://db1.example:6380", { password: "secret", database: 2 }] }

    it "gives it as a client" do
      expect(taken(config.new_client)).to eq(expected)
    end

    it "gives it as a pool" do
      expect(taken(config.new_pool(size: 2))).to eq(expected)
    end

    it "gives it as a configuration" do
      expect(taken(config)).to eq(expected)
    end

    it "gives it through a decorator" do
      decorated = RedisClient::Decorator.create(Module.new).new(config.new_client)
      expect(taken(decorated)).to eq(expected)
    end

    it "gives a password that is made when it is asked for" do
      config =
        RedisClient.config(
          host: "db1.example", username: "alice", password: ->(user) { "for #{user}" }
        )
      expect(taken(config.new_client)).to eq(
        ["redis://db1.example:6379", { username: "alice", password: "for alice" }]
      )
    end

    it "through sentinels keeps their TLS apart from that of the servers" do
      client =
        RedisClient.sentinel(
          url: "rediss://main", sentinels: [{ host: "127.0.0.1", port: 1 }]
        ).new_client
      expect(taken(client)).to eq(
        ["rediss+sentinel://127.0.0.1:1/main", { sentinel_tls: false }]
      )
    end

    it "through sentinels has a name that may be a Symbol" do
      client = RedisClient.sentinel(name: :main, sentinels: [{ host: "a.example" }]).new_client
      expect(taken(client)).to eq(["redis+sentinel://a.example:6379/main", {}])
    end

    describe "through sentinels with TLS settings of their own" do
      def through(own, url: "rediss://main", **of_servers)
        sentinels = [own, own].each_with_index.map do |one, number|
          { host: "#{number}.example", ssl: true, ssl_params: one }
        end
        config = RedisClient.sentinel(url: url, ssl_params: of_servers, sentinels: sentinels)
        taken(config.new_client).last
      end

      it "keeps what differs from the servers'" do
        own = { ca_file: "/own.pem", cert: "/own.crt", key: "/own.key", hostname: "s.example" }
        expect(through(own, ca_file: "/ca.pem")).to eq(
          ca_file: "/ca.pem", sentinel_ca_file: "/own.pem", sentinel_cert: "/own.crt",
          sentinel_key: "/own.key", sentinel_server_name: "s.example"
        )
        expect(through({ ca_path: "/certs" }, ca_file: "/ca.pem"))
          .to eq(ca_file: "/ca.pem", sentinel_ca_path: "/certs")
      end

      it "needs nothing for what is as with the servers" do
        same = { ca_file: "/ca.pem", hostname: "all.example", verify_mode: 0 }
        expect(through(same, **same))
          .to eq(ca_file: "/ca.pem", server_name: "all.example", verify: :none)
      end

      it "keeps them if the servers have no TLS" do
        expect(through({ ca_file: "/own.pem" }, url: "redis://main"))
          .to eq(sentinel_tls: true, sentinel_ca_file: "/own.pem")
      end

      it "keeps whether they are verified" do
        unverified = { verify_mode: 0 }
        expect(through(unverified, ca_file: "/ca.pem"))
          .to eq(ca_file: "/ca.pem", sentinel_verify: :none)
        expect(through({}, **unverified)).to eq(verify: :none, sentinel_verify: :peer)
        expect(through({ ca_file: "/own.pem", **unverified }, **unverified))
          .to eq(verify: :none, sentinel_ca_file: "/own.pem", sentinel_verify: :none)
        expect(through({ ca_file: "/own.pem" }, **unverified))
          .to eq(verify: :none, sentinel_ca_file: "/own.pem")
      end

      it "verifies them by their hosts if only the servers have a name" do
        expect(through({}, hostname: "all.example"))
          .to eq(server_name: "all.example", sentinel_server_name: "")
      end

      it "is refused if they trust the system's certificates, and the servers do not" do
        expect { through({}, ca_file: "/ca.pem") }
          .to raise_error(Plock::UnsupportedError, /sentinels.*system.*ca_file/)
      end

      it "is refused if they differ among one another" do
        sentinels = [{ ca_file: "/a.pem" }, { ca_file: "/b.pem" }].map do |one|
          { host: "a.example", ssl: true, ssl_params: one }
        end
        config = RedisClient.sentinel(url: "rediss://main", sentinels: sentinels)
        expect { described_class.of(config) }
          .to raise_error(Plock::UnsupportedError, /sentinels that differ in their TLS/)
      end

      # redis-client adds the sentinels that it discovers to its list, but with the settings of the
      # servers. Only the application's own sentinels have the right settings.
      it "leaves out those that the client has heard of since" do
        config = RedisClient.sentinel(
          url: "rediss://main",
          sentinels: [{ host: "a.example", ssl: true, ssl_params: { ca_file: "/own.pem" } }]
        )
        sentinel = instance_double(
          RedisClient, call_v: [{ "ip" => "10.0.0.2", "port" => "26379" }]
        )
        config.__send__(:refresh_sentinels, sentinel)
        expect(config.sentinels.size).to eq(2)
        expect(taken(config)).to eq(
          ["rediss+sentinel://a.example:6379/main", { sentinel_ca_file: "/own.pem" }]
        )
      end
    end

    it "is refused if its sentinels are at Unix sockets" do
      config = RedisClient.sentinel(name: "main", sentinels: [{ path: "/run/sentinel.sock" }])
      expect { described_class.of(config) }
        .to raise_error(Plock::UnsupportedError, /sentinels at Unix sockets/)
    end

    it "that reads from replicas is refused" do
      client =
        RedisClient.sentinel(
          name: "main", role: :replica, sentinels: [{ host: "127.0.0.1", port: 1 }]
        ).new_client
      expect { described_class.of(client) }.to raise_error(Plock::UnsupportedError, /replicas/)
    end
  end

  describe "clients of several servers" do
    it "refuses Redis::Distributed by name" do
      client = stub_const("Redis::Distributed", Class.new).new
      expect { described_class.of(client) }
        .to raise_error(Plock::UnsupportedError, /Redis::Distributed/)
    end

    it "refuses the cluster of redis 4, which is no Redis" do
      client = stub_const("Redis::Cluster", Class.new).new
      expect { described_class.of(client) }
        .to raise_error(Plock::UnsupportedError, /Redis::Cluster/)
    end
  end

  # An address as the gem redis-cluster-client represents it.
  describe "a cluster" do
    let(:nodes) do
      { "a:7000" => { host: "a", port: 7000 }, "::1:7001" => { host: "::1", port: 7001 } }
    end

    def config(nodes, fixed_hostname: "")
      stub_const("RedisClient::ClusterConfig", Class.new).new.tap do |config|
        config.instance_variable_set(:@fixed_hostname, fixed_hostname)
        config.define_singleton_method(:startup_nodes) { nodes }
      end
    end

    def client(config)
      stub_const("RedisClient::Cluster", Class.new).new.tap do |client|
        client.define_singleton_method(:config) { config }
      end
    end

    it "is named by the nodes to start from" do
      expect(taken(client(config(nodes)))).to eq(["redis+cluster://a:7000,[::1]:7001", {}])
    end

    it "is read through the client of redis, too" do
      inner = client(config(nodes))
      redis = stub_const("Redis::Cluster", Class.new(Redis)).allocate
      redis.define_singleton_method(:_client) { inner }
      expect(taken(redis)).to eq(["redis+cluster://a:7000,[::1]:7001", {}])
    end

    it "keeps credentials, even of a callable, and TLS" do
      own = { username: "ann", password: ->(name) { "of #{name}" }, ssl: true,
              ssl_params: { ca_file: "/ca.pem" } }
      url, options = taken(client(config(nodes.transform_values { |node| node.merge(own) })))
      expect(url).to eq("rediss+cluster://a:7000,[::1]:7001")
      expect(options).to eq(username: "ann", password: "of ann", ca_file: "/ca.pem")
    end

    it "is refused with a host that stands for all nodes" do
      expect { described_class.of(config(nodes, fixed_hostname: "x")) }
        .to raise_error(Plock::UnsupportedError, /fixed_hostname/)
    end
  end

  describe "a ConnectionPool" do
    let(:expected) { ["redis://db1.example:6380", { database: 2 }] }

    def client = Redis.new(url: "redis://db1.example:6380/2")

    it "is asked for one of its clients" do
      expect(taken(ConnectionPool.new(size: 1) { client })).to eq(expected)
    end

    it "is found behind its wrapper" do
      expect(taken(ConnectionPool.wrap(size: 1) { client })).to eq(expected)
    end

    it "gets its client back" do
      pool = ConnectionPool.new(size: 1) { client }
      described_class.of(pool)
      expect(pool.available).to eq(1)
    end

    it "is not waited for if every client is lent out" do
      pool = ConnectionPool.new(size: 1, timeout: 30) { client }
      lent = Queue.new
      background { pool.with { lent.push(:lent) && sleep } }
      lent.pop
      expect { described_class.of(pool) }.to raise_error(Plock::UnavailableError, /pool/) { |error|
        expect(error.code).to be(:saturated)
      }
    end

    it "is unavailable after its end" do
      pool = ConnectionPool.new(size: 1) { client }
      pool.shutdown(&:close)
      expect { described_class.of(pool) }.to raise_error(Plock::UnavailableError)
    end

    it "of something else is no client of Redis" do
      expect(described_class.of(ConnectionPool.new { Object.new })).to be_nil
    end
  end

  describe "Moneta over Redis" do
    it "gives the address of the client inside, and the encoding of its values" do
      store = Moneta.new(:Redis, url: "redis://:secret@db1.example:6380/2")
      expect(taken(store)).to eq(
        ["redis://db1.example:6380", { password: "secret", database: 2, encoding: :marshal }]
      )
    end

    it "gives plain values if they are not serialized" do
      store = Moneta.new(:Redis, host: "db1.example", value_serializer: nil)
      expect(taken(store)).to eq(["redis://db1.example:6379", {}])
    end

    it "accepts a client that was passed in" do
      store =
        Moneta.new(:Redis, backend: Redis.new(host: "db1.example", db: 4), value_serializer: nil)
      expect(taken(store)).to eq(["redis://db1.example:6379", { database: 4 }])
    end

    it "is not a client of Redis if it changes keys or values in another way" do
      expect(described_class.of(Moneta.new(:Redis, host: "db1.example", compress: true))).to be_nil
      expect(described_class.of(Moneta.new(:Redis, host: "db1.example", prefix: "app:"))).to be_nil
    end

    it "is no client of Redis over another adapter" do
      expect(described_class.of(Moneta.new(:Memory))).to be_nil
    end
  end

  describe "Parse::Cache::Redis" do
    let(:cache) do
      stub_const("Parse::Cache::Redis", Class.new do
        attr_reader :url

        def initialize(url:, **options)
          @url = url
          # The option prevents a reload in the children that the suite forks. A reload would make
          # Moneta send QUIT to a server that does not exist.
          @pool =
            Struct.new(:pool).new(
              ConnectionPool.new(size: 1, auto_reload_after_fork: false) do
                Moneta.new(:Redis, { url: url, value_serializer: nil }.merge(options))
              end
            )
        end
      end)
    end

    it "gives the address of the clients in its pool" do
      expect(taken(cache.new(url: "redis://db1.example:6380/2", db: 3)))
        .to eq(["redis://db1.example:6380", { database: 3 }])
    end

    it "writes locks past Moneta, whatever Moneta does to other values" do
      expect(taken(cache.new(url: "redis://db1.example", compress: true))).to eq(
        ["redis://db1.example:6379", {}]
      )
    end

    it "gives its URL if it has no pool to ask" do
      bare = cache.allocate
      bare.instance_variable_set(:@url, "redis://:secret@db1.example:6380/2")
      expect(taken(bare)).to eq(["redis://:secret@db1.example:6380/2", {}])
    end

    it "is found behind the view of an application" do
      view =
        stub_const("Parse::Cache::ScopedView", Struct.new(:backend)).new(
          cache.new(url: "redis://db1.example")
        )
      expect(taken(view)).to eq(["redis://db1.example:6379", {}])
    end
  end

  it "is nil for anything else" do
    [nil, 7, Object.new, BasicObject.new, "redis://db1.example", {}].each do |other|
      expect(described_class.of(other)).to be_nil
    end
  end

  it "shows no password" do
    address = described_class.of(Redis.new(url: "redis://alice:secret@db1.example"))
    expect(address.inspect).to eq("#<Plock::ClientAddress>")
  end

  it "cannot be changed" do
    address = described_class.of(Redis.new(host: "db1.example"))
    expect([address.url, address.options]).to all(be_frozen)
  end
end
