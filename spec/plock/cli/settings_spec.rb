# frozen_string_literal: true

require "spec_helper"
require "json"
require "plock/cli"
require "support/command_line"

# The sources from which the command reads the store's address and the settings for key names.
RSpec.describe "plock's settings", needs: "redis-server" do
  include Support::CommandLine

  secret = "sixteen bytes and more"

  let(:app) do
    File
      .join(Support::Supervisor.folder, "app-#{SecureRandom.hex(6)}")
      .tap { |path| FileUtils.mkdir_p("#{path}/config") }
  end
  let(:file) { "#{app}/config/plock.yml" }
  let(:key) { lock_name }
  let(:server) { redis_server }

  # An environment like cron's, with hardly more than PATH.
  def plock_environment(env) =
    ENV
      .keys
      .to_h { |name| [name, nil] }
      .merge("PATH" => ENV.fetch("PATH"), "XDG_RUNTIME_DIR" => app)
      .merge(env)

  def in_app(*arguments, env: {}, chdir: app) = plock(*arguments, env: env, chdir: chdir)

  def settings(*options, env: {}, chdir: app)
    output, errors, = in_app("doctor", "--json", *options, env: env, chdir: chdir)
    expect(errors).to eq ""
    JSON.parse(output).then { |told| told["settings"].merge("url" => told["store"]) }
  end

  # Holds the key as an application with this configuration does.
  def hold(namespace: "billing", secret: nil)
    discard(
      open_store(server.unix_url, namespace: namespace, secret: secret).acquire(key), :release
    )
  end

  def write(text) = File.write(file, text)

  def production = { "RAILS_ENV" => "production" }

  it "are those of the application in whose folder it runs, so that both exclude one another" do
    write(
      "shared:\n  namespace: billing\n" \
      "development:\n" \
      "production:\n  url: #{server.unix_url}\n" \
      "  secret: <%= \"sixteen bytes\" + \" and more\" %>\n"
    )
    hold(secret: secret)
    expect(in_app("run", key, "--", "true", env: production).last.exitstatus).to eq 75
    FileUtils.mkdir_p("#{app}/lib/deep")
    expect(in_app("status", key, env: production, chdir: "#{app}/lib/deep").last.exitstatus).to eq 1
    elsewhere =
      in_app(
        "status",
        key,
        "--config",
        file,
        env: {
          "PLOCK_ENV" => "production", "RAILS_ENV" => "test"
        },
        chdir: "/"
      )
    expect(elsewhere.last.exitstatus).to eq 1
  end

  it "are shown by doctor, each with its source" do
    write("production:\n  url: #{server.unix_url}\n  namespace: billing\n  secret: #{secret}\n")
    from = "#{file} (production)"
    told = settings(env: production)
    expect(told).to match(
      "url" => server.unix_url,
      "store" => {
        "from" => from
      },
      "namespace" => {
        "name" => "billing", "from" => from
      },
      "secret" => {
        "fingerprint" => /\A\h{16}\z/, "from" => from
      }
    )
    output, = in_app("doctor", env: production)
    expect(
      output.lines[1]
    ).to eq "  store from #{from}; namespace billing from #{from}; secret from #{from}, " \
         "fingerprint #{told["secret"]["fingerprint"]}\n"
  end

  it "come from options first, then from the environment, then from the file" do
    write("production:\n  url: redis://127.0.0.1:1\n  namespace: file\n  secret: #{"f" * 16}\n")
    env = {
      **production, "PLOCK_URL" => server.unix_url, "PLOCK_NAMESPACE" => "environment",
      "PLOCK_SECRET" => secret
    }
    told, errors, = in_app("doctor", "--json", env: env)
    expect(JSON.parse(told)["settings"]).to match(
      "store" => {
        "from" => "PLOCK_URL"
      },
      "namespace" => {
        "name" => "environment", "from" => "PLOCK_NAMESPACE"
      },
      "secret" => a_hash_including("from" => "PLOCK_SECRET")
    )
    unused = /the url in .*plock.yml \(production\), by which the application goes/
    expect(errors).to match(/\Aplock: PLOCK_URL is used, and not #{unused}/)
    expect(
      settings(
        "--store",
        server.unix_url,
        "--namespace",
        "option",
        env: {
          **env, "PLOCK_URL" => "redis://127.0.0.1:1"
        }
      )
    ).to include(
      "store" => {
        "from" => "--store"
      },
      "namespace" => {
        "name" => "option", "from" => "--namespace"
      }
    )
  end

  it "warn if PLOCK_NAMESPACE differs from the file's namespace, which a Rails application uses" do
    write("production:\n  url: #{server.unix_url}\n  namespace: billing\n")
    env = { **production, "PLOCK_NAMESPACE" => "other" }
    told = "plock: PLOCK_NAMESPACE is used, and not the namespace in #{file} (production), " \
           "by which the application goes; --namespace says that this is meant\n"
    expect(in_app("status", key, env: env)[1]).to eq told
    expect(in_app("status", key, "--namespace", "other", env: env)[1]).to eq ""
    expect(in_app("status", key, env: { **production, "PLOCK_NAMESPACE" => "billing" })[1]).to eq ""
  end

  %w[PLOCK_ENV RAILS_ENV RACK_ENV APP_ENV].each do |variable|
    it "are refused with 64, as by its application, if #{variable} is production without a url" do
      write("production:\n  url: <%= ENV[\"LOCKS\"] %>\n")
      output, errors, status =
        in_app("run", key, "--", "echo", "never", env: { variable => "production" })
      expect([output, status.exitstatus]).to eq ["", 64]
      expect(
        errors
      ).to start_with "plock: #{file} (production) has no url, and #{variable} says production: " \
                      "set PLOCK_URL or pass --store, to redis://"
      expect(
        in_app(
          "run",
          key,
          "--",
          "true",
          env: {
            variable => "production", "PLOCK_URL" => "local:"
          }
        ).last.exitstatus
      ).to eq 0
      expect(
        in_app(
          "run",
          "--config",
          "none",
          key,
          "--",
          "true",
          env: {
            variable => "production"
          }
        ).last.exitstatus
      ).to eq 0
    end
  end

  { "secret" => "sixteen bytes and more", "namespace" => "billing" }.each do |name, value|
    it "are refused with 64 if the file's options have a #{name}, which plock would ignore" do
      write("shared:\n  url: #{server.unix_url}\n  options:\n    #{name}: #{value}\n")
      _, errors, status = in_app("status", key)
      expect(errors).to start_with "plock: options in #{file} have a #{name}, " \
                                   "which would not count there: it stands beside options"
      expect(status.exitstatus).to eq 64
    end
  end

  it "apply the options of the file only to the file's own store" do
    write("shared:\n  url: #{server.unix_url}\n  options:\n    pool_size: 0\n")
    expect(in_app("status", key)[1]).to include "pool_size"
    expect(in_app("status", key, "--store", server.unix_url).last.exitstatus).to eq 0
    expect(in_app("status", key, env: { "PLOCK_URL" => server.unix_url }).last.exitstatus).to eq 0
  end

  it "need no environment if the file has only a shared section" do
    write("shared:\n  url: #{server.unix_url}\n  namespace: billing\n")
    hold
    expect(in_app("status", key).last.exitstatus).to eq 1
  end

  it "ignore the file with --config none" do
    write("shared: nonsense\n")
    expect(in_app("status", key).last.exitstatus).to eq 64
    hold(namespace: nil)
    expect(
      in_app(
        "status",
        key,
        "--config",
        "none",
        env: {
          "PLOCK_URL" => server.unix_url
        }
      ).last.exitstatus
    ).to eq 1
  end

  {
    "no environment is named, as under cron" => [
      "test:\nproduction:\n", {},
      /which environment\? Set PLOCK_ENV or RAILS_ENV to one of test, production/
    ],
    "the file has no section for the environment" => [
      "test:\nproduction:\n", { "RAILS_ENV" => "prodution" },
      /nothing for prodution, as RAILS_ENV says; it has test, production/
    ],
    "the file is not YAML" => [
      "test: [\n", { "RAILS_ENV" => "test" },
      /no YAML/
    ],
    "the file has no sections" => [
      "url: redis://localhost\n", { "RAILS_ENV" => "test" },
      /url stands outside of a section/
    ],
    "the file is a list" => [
      "- url\n", { "RAILS_ENV" => "test" },
      /a section for each environment/
    ],
    "the file has an unknown name" => [
      "test:\n  uri: 5\n", { "RAILS_ENV" => "test" },
      /has no uri; there are url, secret/
    ],
    "the file's options are a number" => [
      "test:\n  options: 5\n", { "RAILS_ENV" => "test" },
      /options in .* must have names and values/
    ],
    "the file's ERB needs the application" => [
      "test:\n  url: <%= Rails.root %>\n", { "RAILS_ENV" => "test" },
      /ERB raised NameError.*does not load the application/
    ],
    "the file's ERB is malformed" => [
      "test:\n  url: <%= ( %>\n", { "RAILS_ENV" => "test" },
      /ERB raised SyntaxError/
    ],
    "the file's store is the application's" => [
      "test:\n  store: database\n", { "RAILS_ENV" => "test" },
      /store: database, which only the application can open/
    ],
    "the file's secret is too short" => [
      "test:\n  secret: sesame\n", { "RAILS_ENV" => "test" },
      /secret must be .* 16 bytes/
    ]
  }.each do |what, (text, env, message)|
    it "are refused with 64 if #{what}" do
      write(text)
      output, errors, status = in_app("run", key, "--", "true", env: env)
      expect([output, status.exitstatus]).to eq ["", 64]
      expect(errors).to match(message)
      expect(errors).not_to include "sesame"
    end
  end

  # The messages name the part of the URL, because the command has no options for these settings.
  {
    "redis://alice@127.0.0.1:1" => "username: given without password",
    "rediss://127.0.0.1:1?key=/us.key" => "key: given without cert",
    "redis://127.0.0.1:1?fence_ttl=long" => "fence_ttl: not a number of seconds",
    "redis+cluster://127.0.0.1:1/3" => "database: a Redis Cluster has only the database 0"
  }.each do |url, message|
    it "are refused with the name of the wrong part of a URL (#{message[/\A\w+/]})" do
      [["status", key], ["run", "--ttl", "5", key, "--", "true"]].each do |words|
        output, errors, status = plock(*words, env: { "PLOCK_URL" => url })
        expect([output, status.exitstatus]).to eq ["", 64]
        expect(errors).to start_with "plock: #{message}"
      end
    end
  end

  it "are refused with the name of the command's option if it is that which is wrong" do
    expect(in_app("run", "--ttl", "0", key, "--", "true")[1]).to start_with "plock: --ttl must be"
    expect(in_app("run", "--at-least=-1", key, "--", "true")[1])
      .to start_with "plock: --at-least must be"
  end

  it "are refused with 64 if the file cannot be read or does not exist" do
    expect(
      in_app("status", key, "--config", "#{app}/none.yml").then do |_, errors, status|
        [errors[/No such file/], status.exitstatus]
      end
    ).to eq ["No such file", 64]
    FileUtils.mkdir_p(file)
    expect(
      in_app("status", key).then do |_, errors, status|
        [errors[/Is a directory/], status.exitstatus]
      end
    ).to eq ["Is a directory", 64]
  end

  it "are not read from a file that other users may have written, unless --config names it" do
    write("shared:\n  url: <%= File.write('#{app}/ran', ''); '#{server.unix_url}' %>\n")
    File.chmod(0o666, file)
    _, errors, status = in_app("status", key)
    expect(
      [errors[/it is world-writable/], status.exitstatus, File.exist?("#{app}/ran")]
    ).to eq ["it is world-writable", 64, false]
    expect(in_app("status", key, "--config", "config/plock.yml").last.exitstatus).to eq 0
    next unless Process.euid.zero?

    File.chmod(0o644, file)
    File.chown(65_534, nil, file)
    expect(in_app("status", key)[1]).to include "it belongs to another user"
  end

  %w[PLOCK_URL PLOCK_NAMESPACE PLOCK_SECRET].each do |variable|
    it "are refused with 64 if #{variable} is empty, which may mean anything" do
      _, errors, status =
        in_app("run", key, "--", "true", env: { "PLOCK_URL" => server.unix_url, variable => "" })
      expect([errors[/\A.* is empty/], status.exitstatus]).to eq ["plock: #{variable} is empty", 64]
    end
  end

  it "read PLOCK_NAMESPACE as the default store of Ruby does" do
    env = { "PLOCK_URL" => server.unix_url, "PLOCK_NAMESPACE" => "billing", "KEY" => key }
    job = start_plock("run", key, "--", "sh", "-c", "echo >&3; read line", env: env, input: true)
    job.line
    expect(
      ruby('require "plock"; p Plock.try_acquire(ENV.fetch("KEY"))', env: env).first
    ).to eq "nil\n"
    expect(
      in_app(
        "status",
        key,
        "--namespace",
        "billing",
        env: {
          "PLOCK_URL" => server.unix_url
        }
      ).last.exitstatus
    ).to eq 1
    job.tell
    job.finish
  end

  describe "with another secret" do
    def run_beside(env)
      open_store(server.unix_url, namespace: "billing", secret: "s" * 16).acquire(key) { nil }
      in_app(
        "run",
        key,
        "--",
        "echo",
        "ran",
        env: {
          "PLOCK_URL" => server.unix_url, "PLOCK_NAMESPACE" => "billing", **env
        }
      )
    end

    {
      "none, as under cron" => {},
      "another one" => {
        "PLOCK_SECRET" => "t" * 16
      }
    }.each do |what, env|
      it "refuse to run: #{what}" do
        output, errors, status = run_beside(env)
        expect([output, status.exitstatus]).to eq ["", 64]
        url = Regexp.escape(server.unix_url)
        expect(errors).to match(
          /\Aplock: .*namespace "billing" of #{url}.*`plock secret --replace`.*\n\z/
        )
        expect(run_beside("PLOCK_SECRET" => "s" * 16).first).to eq "ran\n"
      end
    end

    it "are a danger that doctor reports and does not accept" do
      run_beside({})
      env = {
        "PLOCK_URL" => server.unix_url, "PLOCK_NAMESPACE" => "billing", "PLOCK_SECRET" => "t" * 16
      }
      Plock::CLI.command("doctor") # loads the checks
      checks = Plock::CLI::Doctor::Examination::ALL
      accepted = checks.map { |check| check::NAME.tr(" ", "-") }.join(",")
      output, _, status = in_app("doctor", "--json", "--accept", accepted, env: env)
      findings = JSON.parse(output)["findings"].to_h { |finding| [finding["check"], finding] }
      expect(findings["secret"]).to include(
        "level" => "danger", "accepted" => false, "remedy" => /plock secret --replace/
      )
      expect([findings["trial"]["level"], status.exitstatus]).to eq ["unknown", 1]
    end
  end
end
